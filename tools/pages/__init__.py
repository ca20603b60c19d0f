"""The documents as a site: `make docs` serves it, and a test builds it without a warning.

`mkdocs.yml` has the order of the pages. The modules:

    links.py      which file of the repository is which page, and links between them
    assemble.py   the folder of all pages, which the generator of the site reads
    api.py        which public name is on which page of the reference
    build.py      the generator
    docstrings.py examples in docstrings
    generated.py  the pages whose text is in the code: commands, settings, kinds, metrics
"""
