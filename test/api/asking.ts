import { request } from 'node:http'
import type { Test } from 'tap'
import { type ApiOptions, createApi } from '../../src/api/server.js'
import { ApiKeys } from '../../src/control/operator-keys.js'
import { systemClock } from '../../src/lib/clock.js'
import { mustHaveShape } from './shapes.js'

export const KEY = 'a-key-of-the-administrator'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** The body as JSON; undefined when there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at member by member.
  readonly json: any
}

export interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON, a text or bytes as they are. */
  readonly body?: unknown
  readonly key?: string | null | undefined
}

export type Ask = (path: string, asked?: Asked) => Promise<Answer>

/** A real API on a free port. */
export async function listen(t: Test, options: Partial<ApiOptions> = {}) {
  const faults: unknown[] = []
  const api = createApi({
    keys: new ApiKeys([KEY], undefined),
    hosts: [],
    clock: systemClock,
    readiness: () => 'ready',
    fault: (error) => faults.push(error),
    ...options
  })
  const { host, port } = await api.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(() => api.close())
  return { ask: asker(host, port), host, port, faults }
}

/** Asks with a key, the version and what else a well-behaved client sends. */
export function asker(host: string, port: number): Ask {
  return (path, { method = 'GET', headers = {}, body, key = KEY } = {}) =>
    new Promise<Answer>((resolve, reject) => {
      const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body)
      const sent = request(
        {
          host,
          port,
          path,
          method,
          agent: false,
          headers: {
            ...(key === null ? {} : { authorization: `Bearer ${key}` }),
            'service-version': '2',
            ...(bytes === undefined
              ? {}
              : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }),
            ...headers
          }
        },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => {
            const text = Buffer.concat(chunks).toString()
            const isJson = String(response.headers['content-type']).startsWith('application/json') && text !== ''
            const json = isJson ? JSON.parse(text) : undefined
            try {
              if (isJson && /^2/.test(String(response.statusCode))) mustHaveShape(method, path, json)
            } catch (error) {
              return reject(error)
            }
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json })
          })
        }
      )
      sent.on('error', reject)
      sent.end(bytes)
    })
}

/** Every error has the one form; returns its word. */
export function word(t: Test, answer: Answer): string {
  const { error_code, status_code, msg, details } = answer.json ?? {}
  t.equal(status_code, answer.status)
  t.type(msg, 'string')
  t.equal(answer.headers['service-operation-id'], details?.operation_id, 'the id of body and header are the same')
  t.ok(
    Object.values(details ?? { none: 0 }).every((value) => typeof value === 'string'),
    'details hold strings only'
  )
  return String(error_code).replace(/^ERR_SLUICE_/, '')
}
