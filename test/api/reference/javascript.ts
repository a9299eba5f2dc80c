import { createRequire } from 'node:module'
import { KEY } from '../asking.js'
import type { Body } from './rows.js'
import type { Call, Client, Reply } from './runner.js'

const require = createRequire(import.meta.url)
/** The published client of the API for JavaScript, unmodified. */
const { Ngrok } = require('@ngrok/ngrok-api')
/** Its conversion of names in answers, which reaches keys of maps too. */
const { deserializeResult } = require('@ngrok/ngrok-api/lib/util.js')

type Method = (argument?: unknown, limit?: string) => Promise<unknown>
type Service = Readonly<Record<string, Method>>

const camel = (name: string) => name.replace(/_[a-z]/g, (part) => part.slice(1).toUpperCase())

/** Members in the client's spelling. It breaks capitals in keys of maps, so names of headers are in lower case. */
function camelBody(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelBody)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [camel(key.toLowerCase()), camelBody(item)]))
}

/** Ids in a path, by the names of the client's arguments. */
function idsIn(path: string): Readonly<Record<string, string>> {
  const [, edgeId, route] = /^\/edges\/https\/([^/]+)\/routes(?:\/([^/]+))?/.exec(path) ?? []
  if (edgeId !== undefined) return { edgeId, ...(route === undefined ? {} : { id: route }) }
  const [, subscriptionId, type] = /^\/event_subscriptions\/([^/]+)\/sources(?:\/([^/]+))?/.exec(path) ?? []
  if (subscriptionId !== undefined) return { subscriptionId, ...(type === undefined ? {} : { type }) }
  const id = path.split('/').find((part) => /^[a-z0-9]+_[0-9A-Za-z]{27}$/.test(part) || /^ep_\w+$/.test(part))
  return id === undefined ? {} : { id }
}

/** Every method of every service of a client, by the reference's name of the operation. */
function methodsOf(client: object): ReadonlyMap<string, Method> {
  const found = new Map<string, Method>()
  const add = (services: object) => {
    for (const [key, service] of Object.entries(services) as [string, Service][]) {
      if (key === 'httpClient' || typeof service !== 'object') continue
      const prototype = Object.getPrototypeOf(service)
      if (prototype === Object.prototype) add(service)
      else
        for (const method of Object.getOwnPropertyNames(prototype))
          if (/^[a-z]/.test(method) && method !== 'constructor')
            found.set(`${key}.${method}`, (...given) => (service[method] as Method).apply(service, given))
    }
  }
  add(client)
  return found
}

export interface JavascriptClient extends Client {
  /** Names of all methods: service and method. */
  readonly methods: readonly string[]
  /** Methods that were called. */
  readonly called: Set<string>
  /** Returns whether the client has the family. */
  has(family: string): boolean
}

/** The client with the operations of the table as calls of its methods. */
export function javascript(host: string, port: number): JavascriptClient {
  const methods = methodsOf(new Ngrok({ apiToken: KEY, baseUrl: `http://${host}:${port}` }))
  const called = new Set<string>()
  const methodOf = (family: string, verb: string): Method => {
    const name = `${camel(family)}.${camel(verb)}`
    const method = methods.get(name)
    if (method === undefined) throw new Error(`the client has no ${name}`)
    called.add(name)
    return method
  }
  return {
    filters: false,
    zeros: false,
    methods: [...methods.keys()],
    called,
    show: (value) => deserializeResult(value),
    has: (family) => [...methods.keys()].some((name) => name.startsWith(`${camel(family)}.`)),
    async call({ family, verb, method, path, body }: Call): Promise<Reply> {
      const ids = idsIn(path)
      const call = methodOf(family, verb)
      const written = camelBody(body ?? {}) as Body
      // Methods with one id take it as a text, others an object.
      const one = Object.keys(ids).length === 1 && ids.id !== undefined ? ids.id : ids
      const takesId = body === undefined || (method === 'POST' && ['restart', 'stop'].includes(verb))
      const argument = method === 'PUT' ? { ...ids, module: written } : takesId ? one : { ...ids, ...written }
      try {
        const json = await call(argument)
        return { status: method === 'POST' ? 201 : method === 'DELETE' ? 204 : 200, json }
      } catch (error) {
        // The client reads JSON from the empty body of a 204, so success looks like this.
        if (error instanceof SyntaxError) return { status: 204, json: undefined }
        const { statusCode } = error as { readonly statusCode?: number }
        if (statusCode === undefined) throw error
        return { status: statusCode, json: error }
      }
    },
    async list({ family, path }, key, whole) {
      const call = methodOf(family, 'list')
      if (!whole) return (await call(undefined, '1')) as Body[]
      const answer = (await call(idsIn(path))) as Readonly<Record<string, readonly Body[]>>
      return answer[camel(key)] ?? []
    }
  }
}
