import { startSluice } from '../helpers/sluice.js'
import { onEngines } from './engines.js'
import { statusOf, values } from './message.js'
import { ask, Upstream } from './peers.js'

const get = (target: string, ...fields: string[]): string =>
  `${[`GET ${target} HTTP/1.1`, 'Host: a.test', ...fields].join('\r\n')}\r\n\r\n`

const POLICY = `
on_http_request:
  - actions: [{ type: add-headers, config: { headers: { x-client: "\${conn.client_ip}" } } }]
`

interface Chain {
  readonly name: string
  readonly fields: readonly string[]
  /** What policies take for the client's address. */
  readonly client: string
  readonly has: Readonly<Record<string, string>>
}

const trusting: readonly Chain[] = [
  {
    name: 'nothing came',
    fields: [],
    client: '127.0.0.1',
    has: { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http', 'x-forwarded-host': 'a.test' }
  },
  {
    name: 'one client',
    fields: ['X-Forwarded-For: 192.0.2.1', 'X-Forwarded-Proto: https', 'X-Forwarded-Host: b.test'],
    client: '192.0.2.1',
    has: { 'x-forwarded-for': '192.0.2.1, 127.0.0.1', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'b.test' }
  },
  {
    name: 'a client that put an address in front of its own',
    fields: ['X-Forwarded-For: 198.51.100.7, 192.0.2.1'],
    client: '192.0.2.1',
    has: { 'x-forwarded-for': '198.51.100.7, 192.0.2.1, 127.0.0.1' }
  },
  {
    name: 'a second trusted proxy',
    fields: ['X-Forwarded-For: 198.51.100.7, 192.0.2.1, 10.1.2.3'],
    client: '192.0.2.1',
    has: { 'x-forwarded-for': '198.51.100.7, 192.0.2.1, 10.1.2.3, 127.0.0.1' }
  },
  {
    name: 'the chain in several fields',
    fields: ['X-Forwarded-For: 192.0.2.1', 'X-Forwarded-For: 10.1.2.3'],
    client: '192.0.2.1',
    has: { 'x-forwarded-for': '192.0.2.1, 10.1.2.3, 127.0.0.1' }
  },
  {
    name: 'something that is no address ends the chain',
    fields: ['X-Forwarded-For: 192.0.2.1, unknown, 10.1.2.3'],
    client: '10.1.2.3',
    has: {}
  },
  { name: 'only proxies', fields: ['X-Forwarded-For: 10.9.9.9, 10.1.2.3'], client: '10.9.9.9', has: {} },
  { name: 'IPv6 with a port', fields: ['X-Forwarded-For: [2001:db8::1]:4711'], client: '2001:db8::1', has: {} },
  { name: 'IPv4 with a port', fields: ['X-Forwarded-For: 192.0.2.1:4711'], client: '192.0.2.1', has: {} },
  {
    name: 'an IPv4 address written as IPv6',
    fields: ['X-Forwarded-For: ::ffff:192.0.2.1'],
    client: '192.0.2.1',
    has: {}
  },
  {
    name: 'Forwarded',
    fields: ['Forwarded: for=198.51.100.7, for="[2001:db8::1]:80";proto=https'],
    client: '2001:db8::1',
    has: {
      forwarded:
        'for=198.51.100.7, for="[2001:db8::1]:80";host=a.test;proto=https, for=127.0.0.1;host=a.test;proto=http',
      'x-forwarded-for': '198.51.100.7, 2001:db8::1, 127.0.0.1',
      'x-forwarded-proto': 'https'
    }
  },
  {
    name: 'an alias is not believed',
    fields: ['X_Forwarded_For: 192.0.2.1'],
    client: '127.0.0.1',
    has: { 'x-forwarded-for': '127.0.0.1' }
  }
]

onEngines('a peer that is trusted', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const options = { TRUSTED_PROXIES: '127.0.0.0/8,10.0.0.0/8' }
  const sluice = await startSluice(t, { engine, upstream: upstream.address, policy: POLICY, options })
  for (const { name, fields, client, has } of trusting) {
    upstream.reset()
    const answer = await ask(sluice.port, get('/a', ...fields))
    t.equal(answer && statusOf(answer), 200, name)
    const headers = upstream.requests[0]?.headers ?? []
    t.same(values(headers, 'x-client'), [client], name)
    for (const [field, value] of Object.entries(has)) t.same(values(headers, field), [value], `${name}: ${field}`)
    for (const field of ['x-forwarded-for', 'forwarded', 'x-forwarded-proto', 'x-forwarded-host']) {
      t.equal(values(headers, field).length, 1, `${name}: one ${field}`)
    }
  }
})

onEngines('a peer that is not trusted', async (t, engine) => {
  const upstream = await Upstream.start(t)
  const sluice = await startSluice(t, {
    engine,
    upstream: upstream.address,
    policy: POLICY,
    options: { TRUSTED_PROXIES: '10.0.0.0/8' }
  })
  for (const { name, fields } of trusting) {
    upstream.reset()
    await ask(sluice.port, get('/a', ...fields))
    const headers = upstream.requests[0]?.headers ?? []
    t.same(values(headers, 'x-client'), ['127.0.0.1'], name)
    t.same(values(headers, 'x-forwarded-for'), ['127.0.0.1'], name)
    t.same(values(headers, 'x-forwarded-proto'), ['http'], name)
    t.same(values(headers, 'forwarded'), ['for=127.0.0.1;host=a.test;proto=http'], name)
  }
})

onEngines(
  'a limit by address cannot be escaped by claims, and counts clients behind a trusted proxy',
  async (t, engine) => {
    const upstream = await Upstream.start(t)
    const policy = `
on_http_request:
  - actions:
      - type: rate-limit
        config: { name: address, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: [conn.client_ip] }
`
    const open = await startSluice(t, { engine, upstream: upstream.address, policy })
    const behind = await startSluice(t, {
      engine,
      upstream: upstream.address,
      policy,
      options: { TRUSTED_PROXIES: '127.0.0.1' }
    })
    const statuses = async (port: number, chain: (i: number) => string): Promise<number[]> => {
      const got: number[] = []
      for (let i = 0; i < 4; i++) {
        const answer = await ask(port, get('/a', `X-Forwarded-For: ${chain(i)}`))
        got.push(answer === undefined ? 0 : statusOf(answer))
      }
      return got
    }
    t.same(await statuses(open.port, (i) => `192.0.2.${i}`), [200, 200, 429, 429])
    t.same(await statuses(behind.port, (i) => `192.0.2.${i}`), [200, 200, 200, 200])
    t.same(await statuses(behind.port, (i) => `198.51.100.${i}, 192.0.2.99`), [200, 200, 429, 429])
  }
)
