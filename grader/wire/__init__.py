"""The judge's wire: the network that the ranks talk over, kept by the judge, so that whatever crosses it is seen from outside.

broker      the event loop: words, logs and exits in, an `Outcome` out          endpoint    what it needs of the process side
channel     whole frames out of a socket, memory counted                       words       what a rank may say, checked
calls       one rank's call, checked against itself                            seat        all that is known of one rank
desk        what is done with each word                                        store       the rendezvous store
matching    which calls belong together                                        quarrel     why some don't
arithmetic  what is computed, in rank order                                    policy      hooks: hold an operation, open a gate
referee     who can never go on                                                kernel      asleep for ever? CPU spent
umpire      when a run is over, and whose fault it was                         faults      the sentences
testimony   the same over gloo, from the recorder's word                       log         a rank's output, head and tail
trace       events, matched and numbered                                       findings    what works here and may hang with NCCL
virtual_time  how long a trace takes on a given network                        gates       backward and the network wait for each other
"""
