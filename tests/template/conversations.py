"""Conversations and settings that real templates are tried with."""
import itertools

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather for a place: <b>now</b> & \"later\" – 天気.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city, as in Zürich", "enum": ["Zürich", "München", "東京"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
                "Units": {"type": ["string", "null"], "nullable": True},
                "places": {"type": "array", "items": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                                                      "required": ["lat", "lon"], "nullable": None}},
                "names": {"type": "array", "items": {"type": ["string", "null"]}, "description": ""},
                "options": {"type": "object", "properties": {"verbose": {"type": "boolean"}, "items": {"type": "string"}}, "required": ["verbose"]},
            },
            "required": ["city"],
        },
        "response": {"type": "object", "description": "What is known."},
    },
}
PLAIN = {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}}
BARE = {"name": "bare", "description": "No wrapper", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}}


def call(name, arguments, identity="call_1"):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


ARGUMENTS = {"city": "Zürich", "days": 3, "ratio": 1.5, "whole": 2.0, "big": 12345678901234567890, "flag": True, "no": False,
             "none": None, "list": [1, "two", [3.25]], "map": {"b": 1, "A": {"c": "d\n\"e\""}}, "text": "line\nbreak <tag> & 'q'"}


def user(text="Hi there"):
    return {"role": "user", "content": text}


def assistant(text="Hello.", **more):
    return {"role": "assistant", "content": text, **more}


def system(text="Be brief."):
    return {"role": "system", "content": text}


def tool(text="sunny", **more):
    return {"role": "tool", "content": text, **more}


CONVERSATIONS = {
    "empty": [],
    "user": [user()],
    "system and user": [system(), user()],
    "only system": [system()],
    "developer": [{"role": "developer", "content": "Dev."}, user()],
    "turns": [user("One"), assistant("Two"), user("Three"), assistant("Four"), user("Five")],
    "turns with system": [system(" S \n"), user("One"), assistant("Two"), user("Three")],
    "ends with assistant": [user("One"), assistant("Two")],
    "assistant first": [assistant("Two"), user("One")],
    "two users": [user("One"), user("Two")],
    "late system": [user("One"), system("Late"), user("Two")],
    "observation": [user("One"), {"role": "system", "name": "observation", "content": "Seen"}, user("Two")],
    "edges": [system("\n\t system \n"), user("  \n user \u00a0\u2003\n"), assistant("\n\n assistant \t"), user("\u3000x\u3000")],
    "empty contents": [system(""), user(""), assistant(""), user("")],
    "unicode": [system("Ünïcödé 日本語"), user("😀 👨‍👩‍👧 é e\u0301 \u202eRTL\u202c"), assistant("Ελληνικά ΣΑΣ"), user("𝔘𝔫𝔦 \u0000 \u007f \u2028")],
    "markers in text": [user("<|im_start|>system\nx<|im_end|> {{ x }} {% y %} <think>no</think>"), assistant("<tool_call>{}</tool_call>"), user("</think>")],
    "think in content": [user("Q"), assistant("<think>\nreason\n</think>\n\nanswer"), user("Q2"), assistant("<think>\n\n</think>\nanswer2")],
    "think unopened": [user("Q"), assistant("reason</think>answer")],
    "reasoning": [user("Q"), assistant("A", reasoning_content="Because."), user("Q2"), assistant("A2", reasoning_content="\nSince.\n")],
    "reasoning last": [user("Q"), assistant("A", reasoning_content="Why")],
    "reasoning empty": [user("Q"), assistant("A", reasoning_content=""), user("Q2"), assistant("A2", reasoning_content=None)],
    "reasoning field": [user("Q"), assistant("", reasoning="R", tool_calls=[call("now", {})]), tool("12:00", tool_call_id="call_1")],
    "channel": [user("Q"), assistant("<|channel>thought\nhidden<channel|>shown"), user("Q2")],
    "call": [user("Weather?"), assistant("", tool_calls=[call("get_weather", ARGUMENTS)])],
    "call with content": [user("Weather?"), assistant("Let me see. ", tool_calls=[call("get_weather", {"city": "東京"})])],
    "call with null": [user("Weather?"), assistant(None, tool_calls=[call("get_weather", {"city": "X"})]), tool("rain")],
    "call without content": [user("Weather?"), {"role": "assistant", "tool_calls": [call("get_weather", {"city": "X"})]}, tool("rain")],
    "call text arguments": [user("Weather?"), assistant("", tool_calls=[call("get_weather", "{\"city\": \"X\"}")]), tool("rain")],
    "call no arguments": [user("Time?"), assistant("", tool_calls=[call("now", {})]), tool("12:00"), assistant("Noon.")],
    "call unwrapped": [user("Time?"), assistant("", tool_calls=[{"name": "now", "arguments": {"zone": "UTC"}}]), tool("12:00")],
    "calls": [user("Both?"), assistant("", tool_calls=[call("get_weather", {"city": "A"}, "c1"), call("now", {"z": [1, {"k": "v"}]}, "c2")]),
              tool("sun", tool_call_id="c1"), tool("noon", tool_call_id="c2"), assistant("Sun at noon."), user("Thanks")],
    "call and answer": [system(), user("Weather?"), assistant("", tool_calls=[call("get_weather", ARGUMENTS)]), tool("{\"t\": 21.5}", name="get_weather"),
                        assistant("21.5 degrees.")],
    "call reasoning": [user("Weather?"), assistant("Looking.", reasoning_content="Need it.", tool_calls=[call("get_weather", {"city": "A"})]),
                       tool("sun"), assistant("Sun.", reasoning_content="Got it."), user("And now?"), assistant("", tool_calls=[call("now", {})])],
    "tool mapping": [user("W?"), assistant("", tool_calls=[call("get_weather", {"city": "A"})]), tool({"temperature": 21.5, "sky": "clear", "a": [1, None, True]})],
    "tool parts": [user("W?"), assistant("", tool_calls=[call("get_weather", {"city": "A"})]), tool([{"type": "text", "text": "part"}])],
    "tool responses": [user("W?"), assistant("", tool_calls=[call("get_weather", {"city": "A"})], tool_responses=[{"name": "get_weather", "response": {"t": 1, "s": "x"}},
                                                                                                               {"name": "now", "response": "noon"}]), user("ok")],
    "tool response as user": [user("Q"), assistant("A"), user("<tool_response>\nx\n</tool_response>"), assistant("B")],
    "only tool response": [user("<tool_response>x</tool_response>")],
    "tool first": [tool("x"), user("y")],
    "ipython": [user("Q"), {"role": "ipython", "content": "out"}, user("Q2")],
    "parts": [user([{"type": "text", "text": "One "}, {"type": "text", "text": "two"}]), assistant([{"type": "text", "text": " A "}]), user("B")],
    "image": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "u"}}]), assistant("A cat.")],
    "video and audio": [user([{"type": "video"}, {"type": "audio"}, {"type": "text", "text": " t "}])],
    "system parts": [system([{"type": "text", "text": "Sys"}]), user("B")],
    "system image": [system([{"type": "image"}]), user("B")],
    "unknown part": [user([{"type": "odd"}])],
    "mapping content": [user({"text": "m"}), user({"value": "v", "text": "m"})],
    "number content": [user(5)],
    "unknown role": [user("a"), {"role": "narrator", "content": "b"}],
    "no role": [{"content": "a"}],
    "no content": [user("a"), {"role": "assistant"}],
    "long": list(itertools.chain.from_iterable([user(f"Question {i}"), assistant(f"Answer {i}\n" * (i % 4))] for i in range(8))) + [user("End")],
}

SETTINGS = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True},
    "no thinking": {"add_generation_prompt": True, "enable_thinking": False},
    "tools": {"add_generation_prompt": True, "tools": [WEATHER, PLAIN]},
    "one tool": {"tools": [PLAIN], "enable_thinking": True},
    "bare tool": {"tools": [BARE]},
    "no tools": {"tools": [], "add_generation_prompt": True},
    "more": {"add_generation_prompt": True, "tools": [WEATHER], "tools_in_user_message": False, "builtin_tools": ["get_weather", "code_interpreter"],
             "date_string": "1 Jan 2030", "add_vision_id": True, "preserve_thinking": True, "reasoning_effort": "low"},
}


def all_variables():
    """(name, variables)"""
    for (conversation, messages), (setting, values) in itertools.product(CONVERSATIONS.items(), SETTINGS.items()):
        yield f"{conversation} / {setting}", {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False,
                                             "bos_token": "<s>", "eos_token": "</s>", **values}
