"""Agents that speak through any OpenAI-compatible server: the cloud's, or ``vllm serve``, llama.cpp, Ollama, SGLang.

    openai:model=gpt-4.1-mini,max_cost=2
    openai:model=Qwen/Qwen3-8B,base_url=http://localhost:8000/v1,structured=true,prefill=true

What each role saw and said is kept as a chat of its own (`chat`), a reply is read without trust in the server
(`replies`), faults that may pass are tried again (`faults`), and all agents that ask one server share its limits
(`endpoint`). Needs ``pip install 'debate-arena[openai]'``.
"""

from arena.agents.openai.agent import Limits, OpenAIAgent, Settings
from arena.agents.openai.endpoint import Endpoint
from arena.agents.openai.replies import Reply
from arena.agents.openai.specs import openai_agent

__all__ = ["Endpoint", "Limits", "OpenAIAgent", "Reply", "Settings", "openai_agent"]
