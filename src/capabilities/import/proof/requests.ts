import type { ImportedConfig, ImportedHost, ImportedRoute, RouteTest } from '../model.js'
import { samplesOf } from './samples.js'

export type RequestKind = 'path' | 'slashes' | 'escapes' | 'unknown host' | 'upgrade' | 'large body' | 'recorded'

/** A request of the proof. */
export interface ProofRequest {
  readonly kind: RequestKind
  readonly method: string
  /** Value of the field Host. */
  readonly host: string
  /** Path and query as they are sent. */
  readonly target: string
  readonly headers?: Readonly<Record<string, string>>
  readonly bodyBytes?: number
}

/** Most requests of one proof. */
const MAX_REQUESTS = 5000
const LARGE_BODY = 2 * 1024 * 1024
const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'c2x1aWNlIGltcG9ydCBwcm9vZg=='
}

/** Requests that follow from a configuration: those of each host and test, with the edges of each test. */
export function deriveRequests({ hosts }: ImportedConfig, allMethods: boolean): ProofRequest[] {
  const requests = new Map<string, ProofRequest>()
  const add = (request: ProofRequest) => {
    const key = JSON.stringify(request)
    if (requests.size < MAX_REQUESTS) requests.set(key, request)
  }
  const methods = allMethods ? ['GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE'] : ['GET', 'HEAD']
  for (const host of hosts) {
    for (const [index, name] of namesToAsk(host).entries()) {
      const ask = (kind: RequestKind, target: string, method = 'GET', more: Partial<ProofRequest> = {}) =>
        add({ kind, host: name, target, method, ...more })
      for (const path of pathsOf(host)) ask('path', path)
      // Further names share the routes of the first one.
      if (index > 0) continue
      for (const path of ['/', ...host.routes.flatMap(({ tests }) => edges(tests).slice(0, 1))]) {
        for (const method of methods) ask('path', path, method)
        ask('path', `${path}?a=1&b=%20x`)
        ask('slashes', `/${path}`)
        ask('slashes', `${path}//probe`)
        ask('slashes', `/./probe/..${path}`)
        ask(
          'escapes',
          path.replace(/[a-z]/, (char) => `%${char.charCodeAt(0).toString(16)}`)
        )
        ask('escapes', `${path.replace(/\/$/, '')}/a%20b%2Bc`)
        ask('escapes', `${path.replace(/\/$/, '')}%2Fprobe`)
      }
      for (const { tests, target } of host.routes.filter(({ target }) => target?.kind === 'upstream').slice(0, 20)) {
        const [path = '/'] = edges(tests)
        if (target !== undefined) ask('upgrade', path, 'GET', { headers: UPGRADE })
        if (allMethods) ask('large body', path, 'POST', { bodyBytes: LARGE_BODY })
      }
    }
  }
  for (const target of ['/', '/probe']) add({ kind: 'unknown host', host: 'unknown.invalid', target, method: 'GET' })
  return [...requests.values()]
}

function namesToAsk({ names }: ImportedHost): string[] {
  const asked = names.filter((name) => name !== '*' && !name.includes('${')).map((name) => name.replace('*', 'probe'))
  return asked.length === 0 ? ['unknown.invalid'] : asked
}

/** Paths of a host: the edges of every test, and some that no test names. */
function pathsOf({ routes }: ImportedHost): string[] {
  return ['/', '/probe', '/probe/probe.html', ...routes.flatMap(({ tests }: ImportedRoute) => edges(tests))]
}

/** Paths at the edges of tests; those that the tests take stand first. */
function edges(tests: readonly RouteTest[]): string[] {
  const prefix = tests.find((test) => test.kind === 'path-prefix')
  return tests.flatMap((test): string[] => {
    if (test.kind === 'path-exact') return [test.path, `${test.path}x`, `${test.path}/`, `${test.path}/probe`]
    if (test.kind === 'path-regex') {
      const samples = samplesOf(test.pattern, test.ignoreCase)
      const below =
        prefix?.kind === 'path-prefix' ? samples.map((sample) => prefix.path.replace(/\/$/, '') + sample) : []
      return [
        ...below,
        ...samples,
        ...samples.flatMap((sample) => [`${sample}x`, `/probe${sample}`, sample.toUpperCase()])
      ]
    }
    if (test.kind !== 'path-prefix') return []
    const { path } = test
    const bare = path.replace(/\/$/, '')
    return [
      `${bare}/probe`,
      path,
      bare === '' ? '/' : bare,
      `${path}x`,
      `${bare}x/probe`,
      `${bare}/a/b.css`,
      bare.slice(0, -1) || '/'
    ]
  })
}

/** Requests of a HAR file or of an access log in the format `combined`. Undefined for another text. */
export function readRequests(text: string, host: string, allMethods: boolean): ProofRequest[] | undefined {
  const requests = /^\s*\{/.test(text) ? fromHar(text) : fromLog(text, host)
  return requests?.filter(({ method }) => allMethods || method === 'GET' || method === 'HEAD').slice(0, MAX_REQUESTS)
}

interface HarEntry {
  readonly request?: { readonly method?: unknown; readonly url?: unknown }
}

function fromHar(text: string): ProofRequest[] | undefined {
  let har: { readonly log?: { readonly entries?: readonly HarEntry[] } }
  try {
    har = JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  if (!Array.isArray(har.log?.entries)) return undefined
  return (har.log.entries as readonly HarEntry[]).flatMap(({ request }): ProofRequest[] => {
    if (typeof request?.method !== 'string' || typeof request.url !== 'string' || !URL.canParse(request.url)) return []
    const { hostname, pathname, search } = new URL(request.url)
    return [{ kind: 'recorded', method: request.method, host: hostname, target: `${pathname}${search}` }]
  })
}

function fromLog(text: string, host: string): ProofRequest[] | undefined {
  const requests = [...text.matchAll(/"([A-Z]+) (\/[^\s"]*) HTTP\/[\d.]+"/g)].map(
    ([, method, target]): ProofRequest => {
      return { kind: 'recorded', method: method as string, host, target: target as string }
    }
  )
  if (requests.length === 0) return undefined
  return [...new Map(requests.map((request) => [`${request.method} ${request.target}`, request])).values()]
}
