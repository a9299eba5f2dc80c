import t from 'tap'
import { type Cidr, CidrSet, canonicalAddress, parseCidr } from '../../src/lib/ip.js'
import { trustingProxies } from '../../src/proxy/client-address.js'
import { parseForwarded } from '../../src/proxy/forwarded-field.js'
import { create, site, visit } from '../helpers/account.js'
import { startSluice } from '../helpers/sluice.js'
import { answering, RawUpstream } from '../helpers/upstream.js'

const untrusting = trustingProxies(undefined)
const trusting = trustingProxies(new CidrSet(['10.0.0.0/8', 'fd00::/8'].map((text) => parseCidr(text) as Cidr)))

/** What an upstream gets to read of these fields of a trusted peer, in the order in which they are written. */
function written(list: readonly string[], peer = '10.0.0.1', forwarding = trusting) {
  const headers = [...list]
  const origin = forwarding.origin(peer, 1, headers, 'http')
  forwarding.write(headers, peer, origin, 'http', 'b.test')
  const value = (name: string) => headers[headers.indexOf(name) + 1] as string
  return {
    headers,
    client: origin.address,
    scheme: origin.scheme,
    addresses: value('X-Forwarded-For'),
    proto: value('X-Forwarded-Proto'),
    host: value('X-Forwarded-Host'),
    port: value('X-Forwarded-Port'),
    forwarded: value('Forwarded')
  }
}

t.test('without trusted proxies the client is the peer', async (t) => {
  const origin = untrusting.origin('192.0.2.1', 5000, ['X-Forwarded-For', '1.2.3.4'], 'http')
  t.match(origin, { address: '192.0.2.1', port: 5000, trusted: false, scheme: 'http' })
})

t.test('the client is the right-most untrusted element of the chain', async (t) => {
  const client = (chain: string, name = 'X-Forwarded-For') => written([name, chain]).client
  t.equal(client('1.1.1.1'), '1.1.1.1')
  t.equal(client('6.6.6.6, 1.1.1.1'), '1.1.1.1', 'what the client wrote before it does not count')
  t.equal(client('6.6.6.6, 1.1.1.1, 10.2.2.2'), '1.1.1.1')
  t.equal(client('10.3.3.3, 10.2.2.2'), '10.3.3.3', 'a chain of trusted elements ends at its first')
  t.equal(client('1.1.1.1, nonsense, 10.2.2.2'), '10.2.2.2', 'what is no address ends the chain')
  t.equal(client('1.1.1.1:8080'), '1.1.1.1')
  t.equal(client('[2001:db8::1]:443'), '2001:db8::1')
  t.equal(client('::ffff:9.9.9.9'), '9.9.9.9')
  t.equal(client('for=1.1.1.1;proto=https, for="[fd00::1]:80"', 'Forwarded'), '1.1.1.1')
  t.equal(written([]).client, '10.0.0.1')
  t.equal(written(['X-Forwarded-For', '6.6.6.6', 'x-forwarded-for', '1.1.1.1']).client, '1.1.1.1')
})

t.test('every spelling of an address is one client', async (t) => {
  const spellings: Readonly<Record<string, readonly string[]>> = {
    '2001:db8::1': ['2001:DB8::1', '2001:0db8:0:0:0:0:0:1', '2001:db8::0001', '2001:db8::0.0.0.1', '2001:db8::1%eth0'],
    '9.9.9.9': ['::ffff:9.9.9.9', '::FFFF:9.9.9.9', '::ffff:909:909', '0:0:0:0:0:ffff:0909:0909']
  }
  for (const [canonical, list] of Object.entries(spellings)) {
    for (const text of [canonical, ...list]) {
      const bracketed = text.includes(':') ? `[${text}]` : text
      t.equal(canonicalAddress(text), canonical, text)
      t.equal(written(['X-Forwarded-For', text]).client, canonical, `X-Forwarded-For: ${text}`)
      t.equal(written(['X-Forwarded-For', `${bracketed}:99`]).client, canonical, `X-Forwarded-For: ${text} with a port`)
      t.equal(written(['Forwarded', `for="${bracketed}"`]).client, canonical, `Forwarded: ${text}`)
    }
  }
  t.equal(canonicalAddress('::1'), '::1')
  t.equal(canonicalAddress('no:address'), 'no:address')
})

t.test('the fields of this hop are written', async (t) => {
  t.same(written(['A', '1'], '192.0.2.1', untrusting).headers, [
    'A',
    '1',
    'X-Forwarded-For',
    '192.0.2.1',
    'X-Forwarded-Proto',
    'http',
    'X-Forwarded-Host',
    'b.test',
    'X-Forwarded-Port',
    '80',
    'Forwarded',
    'for=192.0.2.1;host=b.test;proto=http'
  ])
})

t.test(
  'the port that the client asked for is that of the host, of the scheme, or what a trusted peer says',
  async (t) => {
    const table: [string, string[], string][] = [
      ['of http', [], '80'],
      ['of https', ['X-Forwarded-Proto', 'https'], '443'],
      ['of the host', ['X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'a.test:8443'], '8443'],
      ['of an address', ['X-Forwarded-Host', '[2001:db8::1]:81'], '81'],
      ['of an address without one', ['X-Forwarded-Host', '[2001:db8::1]'], '80'],
      ['as it is said', ['X-Forwarded-Proto', 'https', 'X-Forwarded-Port', '8443'], '8443'],
      ['what is no port', ['X-Forwarded-Port', '0'], '80'],
      ['one for each element', ['X-Forwarded-For', '1.1.1.1, 10.9.9.9', 'X-Forwarded-Port', '444, 80'], '444']
    ]
    for (const [what, fields, port] of table) t.equal(written(fields).port, port, what)
    t.equal(written(['X-Forwarded-Port', '8443'], '192.0.2.1', untrusting).headers.at(-3), '80')
  }
)

t.test('what a trusted peer says in one of the fields is said in both', async (t) => {
  const own = 'for=10.0.0.1;host=b.test;proto=http'
  const said: [string, string[], string, string, string, string][] = [
    [
      'X-Forwarded-*',
      ['X-Forwarded-For', '1.1.1.1', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'a.test'],
      '1.1.1.1, 10.0.0.1',
      'https',
      'a.test',
      `for=1.1.1.1;host=a.test;proto=https, ${own}`
    ],
    [
      'Forwarded',
      ['Forwarded', 'for="[2001:DB8::1]:80";proto=HTTPS;by=_x;host="a.test:8443"'],
      '2001:db8::1, 10.0.0.1',
      'https',
      'a.test:8443',
      `for="[2001:DB8::1]:80";host="a.test:8443";proto=https;by=_x, ${own}`
    ],
    [
      'a scheme alone',
      ['X-Forwarded-Proto', 'https'],
      '10.0.0.1',
      'https',
      'b.test',
      'for=10.0.0.1;host=b.test;proto=https'
    ],
    [
      'a scheme alone in Forwarded',
      ['Forwarded', 'proto=https'],
      'unknown, 10.0.0.1',
      'https',
      'b.test',
      `host=b.test;proto=https, ${own}`
    ],
    [
      'the scheme of a WebSocket',
      ['X-Forwarded-For', '1.1.1.1', 'X-Forwarded-Proto', 'wss'],
      '1.1.1.1, 10.0.0.1',
      'https',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=https, ${own}`
    ],
    [
      'one half each',
      ['X-Forwarded-For', '1.1.1.1', 'Forwarded', 'for=1.1.1.1;proto=https;by=_x'],
      '1.1.1.1, 10.0.0.1',
      'https',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=https;by=_x, ${own}`
    ],
    [
      'two chains',
      ['X-Forwarded-For', '1.1.1.1', 'Forwarded', 'for=6.6.6.6;proto=https'],
      '1.1.1.1, 10.0.0.1',
      'http',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=http, ${own}`
    ],
    [
      'two schemes',
      ['X-Forwarded-For', '1.1.1.1', 'X-Forwarded-Proto', 'https', 'Forwarded', 'for=1.1.1.1;proto=http'],
      '1.1.1.1, 10.0.0.1',
      'http',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=http, ${own}`
    ],
    [
      'a proxy that tells of its own hop',
      ['X-Forwarded-For', '1.1.1.1, 10.9.9.9', 'X-Forwarded-Proto', 'https', 'Forwarded', 'for=10.9.9.9;proto=http'],
      '1.1.1.1, 10.9.9.9, 10.0.0.1',
      'https',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=https, for=10.9.9.9, ${own}`
    ],
    [
      'a scheme for each element',
      ['X-Forwarded-For', '1.1.1.1, 10.9.9.9', 'X-Forwarded-Proto', 'https,http'],
      '1.1.1.1, 10.9.9.9, 10.0.0.1',
      'https',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=https, for=10.9.9.9, ${own}`
    ],
    [
      'what the client made up before its own element',
      ['Forwarded', 'for=6.6.6.6;proto=https, for=1.1.1.1;proto=http'],
      '6.6.6.6, 1.1.1.1, 10.0.0.1',
      'http',
      'b.test',
      `for=6.6.6.6;proto=https, for=1.1.1.1;host=b.test;proto=http, ${own}`
    ],
    [
      'an open quote of the client',
      ['Forwarded', 'for="6.6.6.6, for=1.1.1.1;proto=https'],
      'unknown, 1.1.1.1, 10.0.0.1',
      'https',
      'b.test',
      `for=unknown, for=1.1.1.1;host=b.test;proto=https, ${own}`
    ],
    [
      'no scheme',
      ['X-Forwarded-For', '1.1.1.1', 'X-Forwarded-Proto', 'gopher'],
      '1.1.1.1, 10.0.0.1',
      'http',
      'b.test',
      `for=1.1.1.1;host=b.test;proto=http, ${own}`
    ],
    [
      'no address',
      ['X-Forwarded-For', 'a"b;proto=https'],
      'a"b;proto=https, 10.0.0.1',
      'http',
      'b.test',
      `for=unknown;host=b.test;proto=http, ${own}`
    ],
    ['nothing', [], '10.0.0.1', 'http', 'b.test', own]
  ]
  for (const [what, fields, addresses, proto, host, forwarded] of said) {
    const found = written(fields)
    t.match(found, { addresses, proto, scheme: proto, host }, what)
    t.equal(found.forwarded, forwarded, what)
  }
})

t.test('whatever a trusted peer says, the fields say the same', async (t) => {
  const addresses = ['1.1.1.1', '10.9.9.9', '2001:DB8::1', '::ffff:6.6.6.6', 'unknown', '_x', 'a"b', '', '10.1.1.1:80']
  const schemes = ['http', 'https', 'wss', 'ws', 'HTTPS', 'x', '']
  let seed = 7
  const pick = <T>(list: readonly T[]): T => {
    seed = (seed * 48_271) % 2_147_483_647
    return list[seed % list.length] as T
  }
  const some = (make: () => string): string => Array.from({ length: pick([0, 1, 1, 2, 3]) }, make).join(', ')
  const element = () =>
    `for="${pick(addresses).replace('"', '')}";proto=${pick(schemes)};host=${pick(['a.test', '', '"b;c"'])}`
  for (let i = 0; i < 500; i++) {
    const fields: string[] = []
    if (pick([true, false]))
      fields.push(
        'X-Forwarded-For',
        some(() => pick(addresses))
      )
    if (pick([true, false]))
      fields.push(
        'X-Forwarded-Proto',
        some(() => pick(schemes))
      )
    if (pick([true, false])) fields.push('Forwarded', some(element))
    if (pick([true, false]))
      fields.push(
        'X-Forwarded-Host',
        some(() => pick(['a.test', 'c.test']))
      )
    const { client, scheme, addresses: chain, proto, host, forwarded } = written(fields)
    const elements = parseForwarded(forwarded)
    const of = (text: string | undefined) => written(['X-Forwarded-For', text ?? 'unknown']).client
    t.same(
      elements.map(({ node }) => of(node)),
      chain.split(', ').map(of),
      `the chains agree: ${forwarded} | ${chain} | ${fields}`
    )
    t.equal(proto, scheme)
    t.ok(
      elements.some((one) => one.proto === scheme && one.host === host),
      `one element tells of the client: ${forwarded}`
    )
    // Read again by the next proxy, nothing changes.
    const again = written([
      'X-Forwarded-For',
      chain,
      'X-Forwarded-Proto',
      proto,
      'X-Forwarded-Host',
      host,
      'Forwarded',
      forwarded
    ])
    if (elements.length > 1 && client !== '10.0.0.1') t.match(again, { client, scheme, host }, forwarded)
    if (!t.passing()) break
  }
})

t.test('a long Forwarded costs time that grows with its length', async (t) => {
  for (const unit of ['for="', 'for=a;', ';', ',', 'for=1.1.1.1,', 'a=\\"', 'for="\\"', ' ', 'for ']) {
    const cost = (length: number): number => {
      const text = unit.repeat(length / unit.length)
      const begun = process.cpuUsage()
      for (let i = 0; i < 5; i++) parseForwarded(text)
      const { user, system } = process.cpuUsage(begun)
      return user + system
    }
    cost(16_384)
    t.ok(cost(262_144) < 500_000, JSON.stringify(unit))
  }
})

t.test('the scheme that a trusted peer says counts for policies, HSTS and cookies', async (t) => {
  const upstream = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  const HOST = 'app.example.com'
  const value = `
on_http_request:
  - expressions: ["req.url.scheme == 'http'"]
    actions: [{ type: redirect, config: { from: '^http://', to: 'https://' } }]
`
  const behind = async (trusted: string) => {
    const sluice = await startSluice(t, { options: { TRUSTED_PROXIES: trusted, HSTS_MAX_AGE: '8760h' } })
    const server = { address: `127.0.0.1:${upstream.port}` }
    const { id } = await create(sluice, '/backends/static', server)
    const sticky = await create(sluice, '/backends/weighted', { backends: { [id]: 1 }, sticky: { cookie: 'at' } })
    await site(sluice, HOST, { backend: { backend_id: sticky.id }, traffic_policy: { value } })
    return async (headers: Record<string, string>) => {
      const { status, headers: fields } = await visit(sluice, HOST, { headers })
      const secure = String(fields['set-cookie'] ?? '').includes('Secure')
      return { status, location: fields.location, hsts: fields['strict-transport-security'] !== undefined, secure }
    }
  }
  const terminated = await behind('127.0.0.1/32')
  const direct = await behind('10.0.0.0/8')
  const passed = { status: 200, location: undefined, hsts: true, secure: true }
  const led = { status: 302, location: `https://${HOST}/`, hsts: false, secure: false }
  const claims: Record<string, string>[] = [
    { 'x-forwarded-proto': 'https' },
    { 'x-forwarded-proto': 'wss' },
    { forwarded: 'for=192.0.2.1;proto=https' },
    { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.1;proto=wss' }
  ]
  for (const claim of claims) {
    t.same(await terminated(claim), passed, JSON.stringify(claim))
    t.same(await direct(claim), led, `${JSON.stringify(claim)} of a stranger`)
  }
  t.same(await terminated({}), led, 'nothing is said')
  t.same(await terminated({ 'x-forwarded-proto': 'http', forwarded: 'proto=https' }), led)
})

t.test('spellings of one address are one bucket', async (t) => {
  const upstream = await RawUpstream.start(t, answering('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'))
  const policy = `
on_http_request:
  - actions: [{ type: rate-limit, config: { name: by-ip, algorithm: sliding_window, capacity: 2, rate: 60s, bucket_key: [conn.client_ip] } }]
`
  const sluice = await startSluice(t, {
    upstream: { port: upstream.port },
    policy,
    options: { TRUSTED_PROXIES: '127.0.0.1/32' }
  })
  const statuses: number[] = []
  for (const headers of [
    { 'x-forwarded-for': '2001:db8::1' },
    { 'x-forwarded-for': '[2001:DB8:0::0:1]:8080' },
    { forwarded: 'for="[2001:0db8::0.0.0.1]"' },
    { 'x-forwarded-for': '2001:db8::1%25eth0' },
    { 'x-forwarded-for': '2001:db8::2' }
  ] as Record<string, string>[]) {
    statuses.push((await visit(sluice, 'a.test', { headers })).status)
  }
  t.same(statuses, [200, 200, 429, 429, 200])
})
