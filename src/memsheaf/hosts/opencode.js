// Memory in opencode: hands its events to `memsheaf hook opencode`. `memsheaf install opencode` writes this file.
// Whatever goes wrong here stays here: opencode goes on as if the plugin were not there.
import { spawn } from "node:child_process"

const PROGRAM = ["memsheaf"]
const MILLISECONDS = 5000 // the hook has a deadline of its own, which is shorter

function ask(event, payload) {
  return new Promise((resolve) => {
    try {
      const [command, ...words] = PROGRAM
      const child = spawn(command, [...words, "hook", "opencode", event], {
        cwd: payload.cwd,
        detached: true, // the end of a turn is kept although `opencode run` ends with it
        stdio: ["pipe", "pipe", "ignore"],
        timeout: MILLISECONDS,
      })
      let out = ""
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (piece) => (out += piece))
      child.on("error", () => resolve({}))
      child.on("close", () => {
        try {
          resolve(JSON.parse(out) ?? {})
        } catch {
          resolve({})
        }
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
      child.unref()
    } catch {
      resolve({})
    }
  })
}

// `opencode run` puts a message that has spaces into quotes.
const QUOTED = /^"(?:[^"\\]|\\.)*"$/s
const unquoted = (text) => (text.includes(" ") && QUOTED.test(text) ? text.slice(1, -1).replaceAll('\\"', '"') : text)

const guarded = (work) => async (...given) => {
  try {
    await work(...given)
  } catch {}
}

export const Memsheaf = async ({ client, directory }) => {
  const parents = new Map() // of sub-agents' sessions
  const starts = new Map() // what a session's system prompt gets
  const turns = new Map() // the message that is being answered, and the answer so far

  const about = (id) => ({
    cwd: directory,
    session_id: parents.get(id) ?? id,
    ...(parents.has(id) && { agent_id: id }),
  })
  const start = (id, source) => {
    if (!starts.has(id) || source === "compact") starts.set(id, ask("start", { ...about(id), source }))
    return starts.get(id)
  }
  const tell = (line) => line && client.tui.showToast({ body: { message: line, variant: "info" } }).catch(() => {})

  const events = {
    "session.created": ({ info }) => info.parentID && parents.set(info.id, info.parentID),
    "message.part.updated": ({ part }) => {
      const turn = turns.get(part.sessionID)
      if (turn && part.type === "text" && part.messageID !== turn.prompt_id) turn.response = part.text
    },
    "session.idle": async ({ sessionID }) => {
      const turn = turns.get(sessionID)
      turns.delete(sessionID)
      if (turn) tell((await ask("turn", { ...about(sessionID), ...turn })).line)
    },
    "session.compacted": ({ sessionID }) => start(sessionID, "compact"),
    "session.deleted": ({ info }) => ask("end", about(info.id)),
  }

  return {
    event: guarded(({ event }) => events[event.type]?.(event.properties)),
    "chat.message": guarded(async ({ sessionID }, { message, parts }) => {
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic)
      const turn = { prompt_id: message.id, prompt: unquoted(texts.map((part) => part.text).join("\n")) }
      if (!turn.prompt) return
      turns.set(sessionID, turn)
      const [{ context, line }] = await Promise.all([ask("prompt", { ...about(sessionID), ...turn }), start(sessionID, "startup")])
      tell(line)
      const last = parts[parts.length - 1]
      if (context) parts.push({ ...texts[0], id: `${last.id}m`, text: context, synthetic: true })
    }),
    "experimental.chat.system.transform": guarded(async ({ sessionID }, { system }) => {
      if (!sessionID || system.some((text) => text.includes("You are a title generator"))) return
      const { context } = await start(sessionID, "startup")
      if (context) system.push(context)
    }),
    "experimental.session.compacting": guarded(({ sessionID }) => ask("compact", about(sessionID))),
  }
}
