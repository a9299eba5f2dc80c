import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { resources } from '../../src/resources/registry.js'
import type { NgrokAsk } from './ngrok-client.js'

/** One request of a tool, and what it needs of the answer. `$name` stands for the id that an earlier step has saved, `$name.field` for a field. */
export interface Step {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly path: string
  readonly body?: object
  /** @default 200, 201 for POST, 204 for DELETE */
  readonly status?: number
  /** Members that the answer must have, equal as the tool compares them. */
  readonly equal?: object
  /** Number of ngrok's error code. */
  readonly code?: number
  /** Number of objects in the list that the answer is. */
  readonly count?: number
  /** Saves the answer under this name. */
  readonly as?: string
  /** What the tool does with it. */
  readonly why?: string
}

export interface Script {
  readonly name: string
  /** Collections that it needs: the script waits until all of them exist. */
  readonly needs: readonly string[]
  readonly steps: readonly Step[]
}

/** Collections that do not exist yet. */
export function missing(needs: readonly string[]): readonly string[] {
  return needs.filter((path) => !resources.some((resource) => resource.path === path))
}

const STATUS = { GET: 200, POST: 201, PATCH: 200, PUT: 200, DELETE: 204 }

type Saved = Map<string, unknown>

/** Replaces `$name` and `$name.field` at any depth. */
export function filled<V>(value: V, saved: Saved): V {
  if (typeof value === 'string') {
    const whole = /^\$(\w+)(?:\.([\w.]+))?$/.exec(value)
    if (whole !== null) return memberOf(saved.get(whole[1] ?? ''), whole[2] ?? 'id') as V
    return value.replace(/\$(\w+)/g, (_, name: string) => String(memberOf(saved.get(name), 'id'))) as V
  }
  if (Array.isArray(value)) return value.map((item) => filled(item, saved)) as V
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filled(item, saved)])) as V
}

export function memberOf(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((found, name) => {
    return typeof found === 'object' && found !== null ? (found as Record<string, unknown>)[name] : undefined
  }, value)
}

/** Runs the steps of a script one after the other; returns what they have saved. */
export async function runSteps(
  t: Test,
  ask: NgrokAsk,
  steps: readonly Step[],
  saved: Saved = new Map()
): Promise<Saved> {
  for (const step of steps) {
    const { method, path, body, equal = {}, code, count, as, why = '' } = step
    const asked = { method, ...(body === undefined ? {} : { body: filled(body, saved) }) }
    const { status, json } = await ask(filled(path, saved), asked)
    const at = `${method} ${path} ${why}: ${JSON.stringify(json)?.slice(0, 400)}`
    t.equal(status, step.status ?? STATUS[method], at)
    if (status >= 400) t.equal(json?.status_code, status, `${at} has its status in the body`)
    if (code !== undefined) t.equal(json?.error_code, `ERR_NGROK_${code}`, at)
    for (const [name, value] of Object.entries(filled(equal, saved))) {
      t.ok(isDeepStrictEqual(memberOf(json, name), value), `${at} has ${name} ${JSON.stringify(value)}`)
    }
    if (count !== undefined) {
      const list = Object.values(json ?? {}).find(Array.isArray)
      t.equal(list?.length, count, at)
    }
    if (as !== undefined) saved.set(as, json)
  }
  return saved
}
