/**
 * The only module that talks to the server. Everything it asks for is in the management API and its description, so that
 * whatever a page does can be done by a script.
 */

const VERSION = '2'
/** Calls that are kept to be shown. */
const MOST_CALLS = 50
/** Waits before a broken stream is opened again. Milliseconds. */
const FIRST_WAIT = 1_000
const LONGEST_WAIT = 15_000

/**
 * A value that parts of the page follow.
 * @template T
 */
export class Store {
  /** @param {T} value */
  constructor(value) {
    this.value = value
    /** @type {Set<() => void>} */
    this.followers = new Set()
  }

  /** @param {T} value */
  set(value) {
    this.value = value
    for (const follower of this.followers) follower()
  }

  /**
   * Calls `follower` after each change, until the function that it returns is called.
   * @param {() => void} follower
   */
  follow(follower) {
    this.followers.add(follower)
    return () => {
      this.followers.delete(follower)
    }
  }
}

/**
 * The user who is signed in; undefined until it is known, null after signing out.
 * @typedef {'any' | 'own' | 'none'} Extent
 * @typedef {import('../../../control/session-answers.js').SessionView & { rights: Record<string, any> }} Session
 * @type {Store<Session | null | undefined>}
 */
export const session = new Store(/** @type {Session | null | undefined} */ (undefined))

/**
 * A call that was made, as it is shown. The body is what was sent.
 * @typedef {{ number: number, method: string, path: string, body: unknown, headers: Record<string, string>, status: number | undefined }} Call
 */

/** The last calls, the newest first. @type {Store<readonly Call[]>} */
export const calls = new Store(/** @type {readonly Call[]} */ ([]))

let number = 0

/** An answer of the API that is an error, or no answer at all (`status` 0). */
export class ApiProblem extends Error {
  /**
   * @param {string} message
   * @param {{ status?: number, code?: string, details?: Record<string, any>, problems?: readonly any[], body?: any }} [more]
   */
  constructor(message, { status = 0, code = '', details = {}, problems = [], body } = {}) {
    super(message)
    this.status = status
    this.code = code
    this.details = details
    this.problems = problems
    this.body = body
  }
}

/**
 * The address of a path of the API, also where the page lies below a path of a proxy.
 * @param {string} path
 */
export function urlOf(path) {
  return new URL(path.replace(/^\//, ''), new URL('.', location.href)).href
}

/**
 * Makes a call and answers the body of its answer: JSON as a value, other types as a text, undefined where there is none.
 * Throws an `ApiProblem`. `secret`: what is sent is not kept among the calls that are shown; `quiet`: nor is the call, which changes nothing.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * `onHeaders`: called with the header fields of the answer, such as its ETag.
 * @param {{ headers?: Record<string, string>, secret?: boolean, quiet?: boolean, signal?: AbortSignal, onHeaders?: (headers: Headers) => void }} [options]
 * @returns {Promise<any>}
 */
export async function call(
  method,
  path,
  body,
  { headers = {}, secret = false, quiet = method === 'GET', signal, onHeaders } = {}
) {
  /** @type {Call} */
  const made = { number: ++number, method, path, body: secret ? undefined : body, headers, status: undefined }
  if (!quiet) calls.set([made, ...calls.value].slice(0, MOST_CALLS))
  const response = await ask(method, path, body, headers, signal)
  made.status = response.status
  onHeaders?.(response.headers)
  if (!quiet) calls.set([...calls.value])
  if (!response.ok) throw await problemOf(response)
  if (response.status === 204) return undefined
  const type = response.headers.get('content-type') ?? ''
  return /json/.test(type) ? await response.json() : await response.text()
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} body
 * @param {Record<string, string>} headers
 * @param {AbortSignal | undefined} signal
 */
async function ask(method, path, body, headers, signal) {
  /** @type {RequestInit} */
  const init = {
    method,
    headers: { 'service-version': VERSION, ...headers },
    credentials: 'same-origin',
    cache: 'no-store'
  }
  if (signal !== undefined) init.signal = signal
  if (body !== undefined) {
    init.headers = { ...init.headers, 'content-type': 'application/json' }
    init.body = JSON.stringify(body)
  }
  try {
    return await fetch(urlOf(path), init)
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiProblem('The process does not respond. Is it still running?')
  }
}

/** @param {Response} response */
async function problemOf(response) {
  if (response.status === 401 && session.value !== undefined) session.set(null)
  const body = await response.json().catch(() => undefined)
  return new ApiProblem(body?.msg ?? `The answer was ${response.status} ${response.statusText}.`, {
    status: response.status,
    code: body?.error_code ?? '',
    details: body?.details ?? {},
    problems: body?.problems ?? [],
    body
  })
}

/**
 * Follows server-sent events (HTML 9.2) of a path until the function that it returns is called; opens a broken stream again.
 * @param {string} path
 * @param {{ onEvent: (name: string, data: any) => void, onState?: (state: 'open' | 'waiting' | 'refused', problem?: ApiProblem) => void }} options
 * @returns {() => void}
 */
export function follow(path, { onEvent, onState = () => {} }) {
  const stopping = new AbortController()
  let wait = FIRST_WAIT
  const attempt = async () => {
    const response = await ask('GET', path, undefined, { accept: 'text/event-stream' }, stopping.signal)
    if (!response.ok || response.body === null) throw await problemOf(response)
    onState('open')
    wait = FIRST_WAIT
    await readEvents(response.body, onEvent)
  }
  const run = async () => {
    while (!stopping.signal.aborted) {
      try {
        await attempt()
      } catch (error) {
        if (stopping.signal.aborted) return
        if (error instanceof ApiProblem && error.status >= 400 && error.status < 500 && error.status !== 429) {
          onState('refused', error)
          return
        }
      }
      if (stopping.signal.aborted) return
      onState('waiting')
      await new Promise((resolve) => setTimeout(resolve, wait))
      wait = Math.min(wait * 2, LONGEST_WAIT)
    }
  }
  void run()
  return () => stopping.abort()
}

/**
 * @param {ReadableStream<Uint8Array>} body
 * @param {(name: string, data: any) => void} onEvent
 */
async function readEvents(body, onEvent) {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    text += decoder.decode(value, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      let name = 'message'
      let data = ''
      for (const line of event.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7)
        else if (line.startsWith('data: ')) data += line.slice(6)
      }
      if (data !== '') onEvent(name, JSON.parse(data))
    }
  }
}

/**
 * The command that makes the same call, with the key taken from the environment.
 * @param {Pick<Call, 'method' | 'path' | 'body' | 'headers'>} made
 */
export function curlOf({ method, path, body, headers }) {
  const parts = ['curl', ...(method === 'GET' ? [] : ['-X', method]), shell(urlOf(path))]
  parts.push('-H', '"authorization: Bearer $SLUICE_API_KEY"', '-H', shell(`service-version: ${VERSION}`))
  for (const [name, value] of Object.entries(headers)) parts.push('-H', shell(`${name}: ${value}`))
  if (body !== undefined) parts.push('-H', shell('content-type: application/json'), '-d', shell(JSON.stringify(body)))
  return parts.join(' ')
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal obeys these when they are pasted
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g

/**
 * A text as one word of a POSIX shell, as people paste it into a terminal. Controls other than line feeds are written by `printf`, so that
 * the terminal obeys none of them while it is pasted. U+0000, which no word of a shell can hold, is left out.
 * @param {string} text
 */
export function shell(text) {
  const quoted = text.replaceAll("'", `'\\''`)
  return `'${quoted.replace(OBEYED, (found) => `'"$(printf '${octal(found)}')"'`)}'`
}

/** @param {string} text */
function octal(text) {
  const bytes = [...new TextEncoder().encode(text.replaceAll('\0', ''))]
  return bytes.map((byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
}
