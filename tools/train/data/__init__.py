"""Requests, tools and answers, made by a grammar of our own."""
