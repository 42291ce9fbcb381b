"""Helpers that tests share: problems, runs, files, servers, programs, a browser. Conftests make fixtures of them."""
