"""LangChain vector store by VStream."""

from langchain_vstream.store import VStream

__all__ = ["VStream"]
