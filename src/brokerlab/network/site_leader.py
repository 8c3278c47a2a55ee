"""Leads the process group of a site: `python -I -S site_leader.py NAMESPACE`, which shows in ps whose it is.

It does nothing, until its standard input is closed: the end of whoever started it does so too.
It imports nothing of brokerlab, because there is one for each site.
"""

import sys

if __name__ == "__main__":
    sys.stdin.buffer.read()
