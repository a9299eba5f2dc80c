import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { httpsEdgeRoute } from '../../src/resources/edges.js'
import { resources } from '../../src/resources/registry.js'
import { openAccount } from './account.js'
import { ngrokClient } from './ngrok-client.js'

/** The published TypeScript client of this API. */
const { Ngrok } = createRequire(import.meta.url)('@ngrok/ngrok-api')

/** Families that may not exist here, by the beginning of their paths. */
const FAMILIES: readonly string[] = ['/abuse_reports', '/app/', '/edges/tls', '/reserved_addrs', '/ssh_credentials']

/** Paths of calls that get 404 because their family does not exist. */
const ABSENT: readonly string[] = [
  ...FAMILIES.filter((start) => !resources.some(({ path }) => path.startsWith(start))),
  ...(httpsEdgeRoute.modules.includes('saml') ? [] : ['/edges/https/x_1/routes/x_1/saml'])
]

type Callable = (argument: unknown) => unknown

/** Ids as one text and as members of an object, because some methods take this and some that. */
const ids = Object.assign(new String('x_1'), { id: 'x_1', edgeId: 'x_1', subscriptionId: 'x_1', sourceId: 'x_1' })

/** Every method of every service of a client. */
function* callsOf(client: object, name = ''): Generator<readonly [name: string, call: () => unknown]> {
  for (const [key, service] of Object.entries(client) as [string, Record<string, Callable>][]) {
    if (key === 'httpClient' || typeof service !== 'object') continue
    const prototype = Object.getPrototypeOf(service)
    if (prototype === Object.prototype) {
      yield* callsOf(service, `${key}.`)
      continue
    }
    const methods = Object.getOwnPropertyNames(prototype).filter((method) => /^[a-z]/.test(method))
    for (const method of methods.filter((one) => one !== 'constructor')) {
      yield [`${name}${key}.${method}`, () => service[method]?.(ids)]
    }
  }
}

t.test('every call of the TypeScript client leads to a route, but for families that do not exist', async (t) => {
  const sent: { readonly method: string; readonly path: string }[] = []
  const recorder = createServer(({ method = '', url = '' }, response) => {
    sent.push({ method, path: url.replace(/\?.*$/, '') })
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"msg":"","details":{}}')
  })
  await new Promise<void>((done) => recorder.listen(0, '127.0.0.1', done))
  t.teardown(() => recorder.close())
  const { port: recorded } = recorder.address() as AddressInfo
  const client = new Ngrok({ apiToken: 'key', baseUrl: `http://127.0.0.1:${recorded}` })
  for (const [name, call] of callsOf(client)) {
    const before = sent.length
    await Promise.resolve(call()).catch(() => undefined)
    t.equal(sent.length, before + 1, `${name} sends one request`)
  }
  t.ok(sent.length >= 200, `${sent.length} calls`)
  const { host, port } = await openAccount(t)
  const ask = ngrokClient(host, port)
  const used = new Set<string>()
  for (const { method, path } of sent) {
    const body = method === 'GET' || method === 'DELETE' ? {} : { body: {} }
    const { status, json } = await ask(path, { method, ...body })
    const isRoute = status !== 405 && !(status === 404 && json?.msg === 'There is nothing under this path.')
    const absent = ABSENT.find((start) => path.startsWith(start))
    if (absent !== undefined) used.add(absent)
    t.equal(isRoute, absent === undefined, `${method} ${path}: ${status} ${JSON.stringify(json)?.slice(0, 100)}`)
  }
  t.same([...used].sort(), [...ABSENT].sort(), 'each of them is a family of the client')
})
