"""What leaves the repository: the students' bundle, the upload to Gradescope, and how a student takes a newer bundle."""

from grader.release.archives import tar_gz, zip_of
from grader.release.bundle import Bundle, bundle_of, leaks_of, require_instructors
from grader.release.leaks import Leak, scan
from grader.release.upgrade import Upgrade, upgrade
from grader.release.write import leaks_in, write

__all__ = [
    "Bundle", "Leak", "Upgrade", "bundle_of", "leaks_in", "leaks_of", "require_instructors", "scan", "tar_gz", "upgrade", "write", "zip_of",
]  # fmt: skip
