/** Completion of policies: the keys, actions, variables and functions that can be written at a place. */

/**
 * A completion. `insert`: the text that is inserted; default: `text`.
 * @typedef {{ text: string, detail: string, insert?: string }} Suggestion
 */

/**
 * Returns a function that lists the completions at a place of a policy and the offset at which the completed word begins.
 * @param {any} language the answer of `GET /policies/language`
 * @returns {(text: string, at: number) => { from: number, suggestions: readonly Suggestion[] }}
 */
export function suggester(language) {
  const names = expressionNames(language)
  return (/** @type {string} */ text, /** @type {number} */ at) => {
    const line = text.slice(text.lastIndexOf('\n', at - 1) + 1, at)
    if (insideExpression(text, at, line)) {
      const word = /[\w.]*$/.exec(line)?.[0] ?? ''
      return { from: at - word.length, suggestions: matching(names, word) }
    }
    const word = /[\w-]*$/.exec(line)?.[0] ?? ''
    return { from: at - word.length, suggestions: matching(keysAt(language, text, at, line), word) }
  }
}

/**
 * Those that begin with what is written go before those that hold it.
 * @param {readonly Suggestion[]} all
 * @param {string} word
 */
function matching(all, word) {
  const lower = word.toLowerCase()
  const begins = all.filter(({ text }) => text.toLowerCase().startsWith(lower))
  const holds = all.filter(({ text }) => !begins.some((one) => one.text === text) && text.toLowerCase().includes(lower))
  const found = lower === '' ? all : [...begins, ...holds]
  return found.length === 1 && found[0]?.text === word ? [] : found
}

/** @param {any} language @returns {Suggestion[]} */
function expressionNames({ variables, functions }) {
  const found = new Map()
  for (const { path, type, optional, description } of variables) {
    found.set(path, { text: path, detail: `${type}${optional ? ', may be absent' : ''}. ${description}` })
  }
  for (const { signature, description } of functions) {
    const name = /([\w.]+)\(/.exec(
      signature.replace(/^(?:string|list|map|bytes|int|double|timestamp|duration|dyn)(?:<[^(]*>)?\./, '')
    )?.[1]
    if (name !== undefined && !found.has(name))
      found.set(name, { text: name, detail: `${signature}. ${description}`, insert: `${name}(` })
  }
  return [...found.values()].sort((a, b) => (a.text < b.text ? -1 : 1))
}

/**
 * Does an expression stand here: below `expressions:` or `bucket_key:`, behind `capacity:` or `cost:`, or in a `${…}`?
 * @param {string} text
 * @param {number} at
 * @param {string} line
 */
function insideExpression(text, at, line) {
  const open = line.lastIndexOf('${')
  if (open !== -1 && !line.slice(open).includes('}')) return true
  if (/\b(?:expressions|bucket_key):\s*\[[^\]]*$/.test(line) && /["'][^"']*$|\[[^"']*$/.test(line)) return true
  if (/\b(?:capacity|cost):\s*["'][^"']*$/.test(line)) return true
  if (!/^\s*-\s/.test(line)) return false
  const indent = line.search(/\S/)
  for (const before of text
    .slice(0, at - line.length)
    .split('\n')
    .reverse()) {
    if (before.trim() === '') continue
    const key = /^(\s*)(?:- )*(\w+):\s*$/.exec(before)
    if (key !== null && before.search(/[\w]/) <= indent && !/^\s*-\s+[^\w]/.test(before)) {
      return key[2] === 'expressions' || key[2] === 'bucket_key'
    }
    if (before.search(/\S/) < indent) return false
  }
  return false
}

const PHASES = {
  on_tcp_connect: 'once for each new connection',
  on_http_request: 'for each request, before it is forwarded',
  on_http_response: 'for each response, before it goes to the client',
  on_event_stream_message: 'for each message of a stream of events'
}
const RULE = { name: 'for people and logs', expressions: 'all of them must be true', actions: 'what is done then' }

/**
 * Keys and values of YAML by what stands around the place.
 * @param {any} language
 * @param {string} text
 * @param {number} at
 * @param {string} line
 * @returns {Suggestion[]}
 */
function keysAt({ actions, schema }, text, at, line) {
  if (/\btype:\s*[\w-]*$/.test(line)) {
    return actions.map((/** @type {any} */ one) => ({ text: one.type, detail: one.summary }))
  }
  const asKeys = (/** @type {Record<string, string>} */ all) =>
    Object.entries(all).map(([name, detail]) => ({ text: name, detail, insert: `${name}: ` }))
  if (/^[\w]*$/.test(line)) return asKeys(PHASES)
  const before = text.slice(0, at)
  const config = /\bconfig:(?:\s*\{[^}]*|\s*(?:\n[ ]+[^\n]*)*)$/.exec(before)
  const type = /.*\btype:\s*["']?([\w-]+)/s.exec(before)?.[1]
  const fields = schema.$defs[`${type}.config`]?.properties
  if (config !== null && fields !== undefined && !/actions:|- type:/.test(config[0]) && deeper(config[0], line)) {
    return asKeys(
      Object.fromEntries(
        Object.entries(fields).map(([name, field]) => [name, String(/** @type {any} */ (field).description ?? '')])
      )
    )
  }
  if (/actions:\s*\[?\s*\{?[^}]*$/.test(line) || /^\s*-\s*[\w]*$/.test(line) || /^\s+[\w]*$/.test(line)) {
    return asKeys({ ...RULE, type: 'which action', config: 'the settings of the action' })
  }
  return []
}

/**
 * Is the line within the block that `config:` opens?
 * @param {string} config
 * @param {string} line
 */
function deeper(config, line) {
  if (config.includes('{')) return true
  const first = config.split('\n').find((one, at) => at > 0 && one.trim() !== '')
  return first === undefined || line.search(/\S|$/) >= first.search(/\S|$/)
}
