"""The course as static pages: every handout with its maths and its laws, and a map of topics. Read from disk, without network or script."""

from grader.site.write import write_site

__all__ = ["write_site"]
