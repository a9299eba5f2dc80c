import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { type Answer, type Ask, asker } from '../api/asking.js'
import { PlainProcess } from './plain-process.js'

/**
 * Writers that storm the API of a process which may be killed at any moment, and what must hold when it is back: every
 * acknowledged write is there with its content, and one that was not answered is there whole or not at all.
 */
const KEY = 'a-key-of-the-administrator'

/** An acknowledged write, with its place on a counter that runs through all writers. */
export interface Acknowledged {
  readonly revision: number
  readonly operationId: string
  readonly sent: number
  readonly answered: number
}

/** What a writer has asked for and not been answered. */
type Pending =
  | { readonly type: 'create' | 'update'; readonly path: string; readonly marker: string }
  | { readonly type: 'delete'; readonly path: string }

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
type Shown = any

const EDGES = '/edges/https'
const BACKENDS = '/backends/static'

/** The process as the storm meets it. */
export interface Stand {
  readonly process: PlainProcess
  readonly ask: Ask
  readonly traffic: string
}

export async function startStand(t: Test, cwd: string, env: Record<string, string>): Promise<Stand> {
  const process = launch(t, cwd, env)
  const { traffic, api } = await process.listening()
  const { hostname, port } = new URL(api)
  const ask = asker(hostname, Number(port))
  return { process, traffic, ask: (path, asked) => ask(path, { key: KEY, ...asked }) }
}

export function launch(t: Test, cwd: string, env: Record<string, string>): PlainProcess {
  const fixed = { SLUICE_API_KEY: KEY, SLUICE_LIMITER_BUDGET: '64MiB', SLUICE_ACCESS_LOG: 'off' }
  return new PlainProcess(t, cwd, { ...fixed, SLUICE_DATA: `${cwd}/data`, ...env })
}

/** A policy whose answer says which write made it. */
function answering(marker: string): string {
  const config = { status_code: 200, headers: { 'content-type': 'text/plain' }, body: marker }
  return JSON.stringify({ on_http_request: [{ actions: [{ type: 'custom-response', config }] }] })
}

const routeOf = (marker: string) => ({ metadata: marker, traffic_policy: { enabled: true, value: answering(marker) } })

/** One client that writes one thing after the other, on records of its own. */
export class StormWriter {
  /** Path to what the API showed when it acknowledged the last write of it. Edges are without their routes. */
  readonly known = new Map<string, Shown>()
  pending: Pending | undefined
  readonly #name: string
  readonly #random: () => number
  #count = 0

  constructor(name: string, random: () => number) {
    this.#name = name
    this.#random = random
  }

  /** Writes until the process no longer answers; `acknowledged` hears of each answer. */
  async storm(ask: Ask, counter: { now: number }, acknowledged: (write: Acknowledged) => void): Promise<void> {
    for (;;) {
      const { path, method, body, pending } = this.#next()
      this.pending = pending
      const sent = ++counter.now
      let answer: Answer
      try {
        answer = await ask(path, { method, body })
      } catch {
        // The process is gone: what became of this write is told after the restart.
        return
      }
      if (answer.status >= 300) throw new Error(`${method} ${path} was answered ${answer.status} ${answer.text}`)
      this.#learn(pending, answer.json)
      const { 'service-revision': revision, 'service-operation-id': operationId } = answer.headers
      acknowledged({
        revision: Number(revision),
        operationId: String(operationId),
        sent,
        answered: ++counter.now
      })
    }
  }

  #next(): { path: string; method: string; body?: unknown; pending: Pending } {
    const marker = `${this.#name}-${++this.#count}`
    const edges = this.#below(EDGES, 4)
    const routes = this.#below(EDGES, 6)
    const edge = this.#pick(edges)
    const route = this.#pick(routes)
    const dice = this.#random()
    if (edge === undefined || (dice < 0.2 && edges.length < 8)) {
      const body = { metadata: marker, hostports: [`${marker}.test:443`, `${marker}.test:8443`] }
      return { path: EDGES, method: 'POST', body, pending: { type: 'create', path: EDGES, marker } }
    }
    if (route === undefined || (dice < 0.45 && routes.length < 24)) {
      const first = !routes.some((path) => path.startsWith(`${edge}/`))
      const body = { match: first ? '/' : `/${marker}`, ...routeOf(marker) }
      const path = `${edge}/routes`
      return { path, method: 'POST', body, pending: { type: 'create', path, marker } }
    }
    if (dice < 0.75) {
      return { path: route, method: 'PATCH', body: routeOf(marker), pending: { type: 'update', path: route, marker } }
    }
    const backend = this.#pick(this.#below(BACKENDS, 4))
    if (dice < 0.8 || (dice < 0.85 && backend === undefined)) {
      const body = { metadata: marker, address: '127.0.0.1:9' }
      return { path: BACKENDS, method: 'POST', body, pending: { type: 'create', path: BACKENDS, marker } }
    }
    const gone = dice < 0.85 ? (backend as string) : dice < 0.93 ? route : edge
    return { path: gone, method: 'DELETE', pending: { type: 'delete', path: gone } }
  }

  #learn(pending: Pending, shown: Shown): void {
    this.pending = undefined
    if (pending.type === 'delete') {
      for (const path of this.known.keys()) if (isWithin(path, pending.path)) this.known.delete(path)
    } else this.known.set(new URL(shown.uri).pathname, comparable(shown))
  }

  #below(collection: string, depth: number): string[] {
    return [...this.known.keys()].filter((path) => path.startsWith(collection) && path.split('/').length === depth)
  }

  #pick(paths: readonly string[]): string | undefined {
    return paths[Math.floor(this.#random() * paths.length)]
  }

  /** Was this record written by this writer? */
  owns({ metadata }: Shown): boolean {
    return String(metadata).startsWith(`${this.#name}-`)
  }
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`)
}

/** Without what depends on the process (its port) or on other records. */
function comparable({ routes: _routes, uri, ...rest }: Shown): Shown {
  return JSON.parse(JSON.stringify({ ...rest, uri: new URL(uri).pathname }))
}

/** Everything that the API shows of the kinds that writers write, by path. */
async function everything(ask: Ask): Promise<Map<string, Shown>> {
  const all = new Map<string, Shown>()
  const enter = (shown: Shown) => all.set(new URL(shown.uri).pathname, comparable(shown))
  for (const [collection, key] of [
    [EDGES, 'https_edges'],
    [BACKENDS, 'backends']
  ] as const) {
    let next: string | null = collection
    while (next !== null) {
      const { json, status, text } = await ask(next)
      if (status !== 200) throw new Error(`${next} was answered ${status} ${text}`)
      for (const shown of json[key]) {
        enter(shown)
        for (const route of shown.routes ?? []) enter(route)
      }
      next =
        json.next_page_uri === null ? null : new URL(json.next_page_uri).pathname + new URL(json.next_page_uri).search
    }
  }
  return all
}

/**
 * Holds what the API shows against what each writer knows; afterwards the writers know what is there. Answers what is
 * wrong, in words.
 */
export async function settle(ask: Ask, writers: readonly StormWriter[]): Promise<string[]> {
  const there = await everything(ask)
  const wrong: string[] = []
  for (const writer of writers) {
    const own = new Map([...there].filter(([, shown]) => writer.owns(shown)))
    const { pending } = writer
    const removed = pending?.type === 'delete' && !own.has(pending.path)
    for (const [path, expected] of writer.known) {
      if (removed && isWithin(path, pending.path)) {
        if (own.has(path)) wrong.push(`${path} outlived ${pending.path}`)
        continue
      }
      const shown = own.get(path)
      if (shown === undefined) wrong.push(`${path} is lost`)
      else if (pending?.type === 'update' && pending.path === path && shown.metadata === pending.marker) {
        const { value } = shown.traffic_policy
        if (value !== answering(pending.marker)) wrong.push(`${path} is half changed`)
      } else if (!isDeepStrictEqual(shown, expected)) {
        wrong.push(`${path} is ${JSON.stringify(shown)} instead of ${JSON.stringify(expected)}`)
      }
    }
    const unknown = [...own].filter(([path]) => !writer.known.has(path))
    if (unknown.length > 1) wrong.push(`${unknown.length} records that nobody wrote`)
    for (const [path, shown] of unknown) {
      const made = pending?.type === 'create' && shown.metadata === pending.marker && isWithin(path, pending.path)
      if (!made) wrong.push(`${path} was not written by ${JSON.stringify(pending)}`)
    }
    writer.pending = undefined
    writer.known.clear()
    for (const [path, shown] of own) writer.known.set(path, shown)
  }
  const owned = writers.reduce((sum, writer) => sum + writer.known.size, 0)
  if (owned !== there.size) wrong.push(`${there.size - owned} records belong to nobody`)
  return wrong
}

/** Sends one request to each site and answers where traffic meets something else than the last write. */
export async function misled(traffic: string, writers: readonly StormWriter[]): Promise<string[]> {
  const wrong: string[] = []
  const { hostname, port } = new URL(traffic)
  const ask = asker(hostname, Number(port))
  for (const writer of writers) {
    for (const [path, edge] of writer.known) {
      if (edge.hostports === undefined) continue
      const root = [...writer.known].find(([below, { match }]) => isWithin(below, path) && match === '/')
      const host = String(edge.hostports[0]).split(':')[0] as string
      const { status, text } = await ask('/', { headers: { host } })
      const expected = root === undefined ? 404 : 200
      if (status !== expected || (root !== undefined && text !== root[1].metadata)) {
        wrong.push(`${host} answers ${status} ${text} instead of ${expected} ${root?.[1].metadata}`)
      }
    }
  }
  return wrong
}

/** Acknowledged revisions are unique, and a write that was sent after another was answered comes after it. */
export function inOrder(acknowledged: readonly Acknowledged[]): boolean {
  const sorted = [...acknowledged].sort((a, b) => a.revision - b.revision)
  let lastSent = 0
  let last = 0
  for (const { revision, sent, answered } of sorted) {
    if (revision === last || answered < lastSent) return false
    lastSent = Math.max(lastSent, sent)
    last = revision
  }
  return true
}
