"""What happens to marks once a class was graded: layers over raw marks, their trail, exports, insight, regrades, similarity.

Everything here reads the folder of a batch; nothing here runs a submission.
"""
