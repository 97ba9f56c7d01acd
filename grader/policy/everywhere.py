"""The rules that hold in every assignment, unless its file permits something (`permitted:`).

A name stands for itself and for everything in it; one that begins with a dot is an attribute of whatever thing.
"""

from __future__ import annotations

from grader.records import Rule

PATCHED = "patched-library"  # found in assignments rather than by names
UNREADABLE = Rule("unreadable", (), "What can't be read can't be checked. Hundreds of operators in one expression make a loop.")

EVERYWHERE = (
    Rule(
        "code-from-text",
        ("builtins.exec", "builtins.eval", "builtins.compile", "code", "codeop", "marshal", "pickle", "dill", "cloudpickle",
         "runpy", "types.CodeType", "types.FunctionType", "torch.package", "torch.jit.CompilationUnit", "torch._C._jit_get_operation",
         "torch.jit.load", "torch.export.load", "torch.serialization.add_safe_globals", "torch.serialization.safe_globals",
         "torch.ops.load_library", "torch.classes.load_library", "torch._inductor.codecache", "shelve", "copyreg", "logging.config",
         "pkgutil", "zipimport", "timeit", "pdb", "cProfile.run", "cProfile.runctx", "bdb", "doctest",
         "typing.get_type_hints", "typing.ForwardRef", "builtins.breakpoint"),
        "What is run must stand in the file that is graded, where a reader can see it.",
    ),
    Rule(
        "raw-memory",
        ("ctypes", "_ctypes", "cffi", "numpy.ctypeslib", "numpy.lib.stride_tricks", "torch.utils.cpp_extension", "torch.from_file",
         ".from_file", ".from_address"),
        "Memory is reached through tensors: an address may be anybody's, and code of another language has no reader here.",
    ),
    Rule(
        "frames",
        ("sys._getframe", "sys._getframemodulename", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile",
         "sys.monitoring", "threading.settrace", "threading.setprofile", "inspect.currentframe", "inspect.stack", "inspect.trace",
         "inspect.getouterframes", "inspect.getinnerframes", "traceback.walk_stack", "traceback.extract_stack", "traceback.StackSummary",
         ".f_back", ".f_locals", ".f_globals", ".tb_frame", ".gi_frame", ".cr_frame", ".ag_frame", ".__globals__", ".__builtins__",
         ".__code__", ".__subclasses__"),
        "What a function needs comes through its parameters; its caller's variables are not among them.",
    ),
    Rule(
        "garbage-collector",
        ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "gc.callbacks", "gc.set_debug", "weakref.getweakrefs"),
        "Objects that nobody handed to the function are not its input.",
    ),
    Rule(
        "processes",
        ("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
         "subprocess", "multiprocessing", "torch.multiprocessing", "concurrent.futures.ProcessPoolExecutor", "pty", "os.fork",
         "os.forkpty", "os.system", "os.popen", "os.posix_spawn", "os.posix_spawnp", "os.execl", "os.execle", "os.execlp", "os.execlpe",
         "os.execv", "os.execve", "os.execvp", "os.execvpe", "os.spawnl", "os.spawnle", "os.spawnlp", "os.spawnlpe", "os.spawnv",
         "os.spawnve", "os.spawnvp", "os.spawnvpe", "os.kill", "os.killpg", "os.pidfd_open", "os.setsid",
         "signal.pidfd_send_signal"),
        "A rank is one process, and its work is done in it: memory and time of another would not be counted.",
    ),
    Rule(
        "leaving",
        ("os._exit", "os.abort", "sys.exit", "builtins.exit", "builtins.quit", "builtins.SystemExit", "atexit", "signal.signal",
         "signal.raise_signal", "signal.setitimer", "signal.alarm", "faulthandler"),
        "A function returns or raises; it does not end the rank, and nothing of it runs afterwards.",
    ),
    Rule(
        "network",
        ("socket", "_socket", "socketserver", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc", "requests", "httpx", "aiohttp",
         "webbrowser", "asyncio.open_connection", "asyncio.start_server", "torch.hub", "torch.distributed.TCPStore",
         "torch.distributed.FileStore", "torch.distributed.rpc", "torch.distributed.elastic"),
        "Ranks talk through torch.distributed's process group and through nothing else.",
    ),
    Rule(
        "shared-memory",
        ("mmap", "posix_ipc", "sysv_ipc", "fcntl", "os.memfd_create", "os.mkfifo", "os.pipe", "os.pipe2", ".share_memory_",
         ".share_memory", "._share_filename_cpu_", "._share_fd_cpu_", "._new_shared", "._new_shared_filename_cpu"),
        "Ranks share nothing but what they send: between two machines there is no such memory.",
    ),
    Rule(
        "the-grader",
        (".judges_line", "grader", "tests", "solutions", "probes", "pytest", "_pytest", "sys.modules", "sys.meta_path", "sys.path_hooks",
         "sys.addaudithook", "sys.excepthook", "sys.unraisablehook", "threading.excepthook", "sys.__stdout__", "sys.__stderr__",
         "importlib.reload",
         "importlib.machinery", "importlib.util", "importlib._bootstrap", "importlib.invalidate_caches", "unittest.mock"),
        "A submission is judged by what it computes; what judges it, and what Python has imported, is not its business.",
    ),
    Rule(
        PATCHED,
        (),
        "A library that does something else than its documentation says misleads all who come after. Write a function of your own.",
    ),
)

# What a call may say of pickles, and what it must say then: they run functions by names that stand in no file.
UNPICKLING = {"weights_only": True, "allow_pickle": False, "pickle_module": None}

# Settings, which are there to be assigned.
SETTINGS = ("torch.backends", "torch._dynamo.config", "torch._inductor.config", "torch._functorch.config", "os.environ")

# Where torch and others keep what they offer under a shorter name.
SYNONYMS = {
    "torch.distributed.distributed_c10d": "torch.distributed",
    "torch._C._distributed_c10d": "torch.distributed",
    "torch.nn.modules.transformer": "torch.nn",
    "torch.nn.modules.activation": "torch.nn",
    "torch.nn.modules": "torch.nn",
    "torch.nn.activation": "torch.nn",  # what remains of the longer name
    "torch.nn.transformer": "torch.nn",
    "torch._ops.ops": "torch.ops",
    "torch._C._VariableFunctions": "torch",
    "torch._C._nn": "torch.nn.functional",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.autocast_mode": "torch",
    "posix": "os",
    "_signal": "signal",
    "_posixsubprocess": "subprocess",
    "_multiprocessing": "multiprocessing",
    "_pickle": "pickle",
    "io.open_code": "builtins.open",
    "__builtins__": "builtins",
}
