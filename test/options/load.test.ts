import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { formatSize, parseSize } from '../../src/lib/units.js'
import { formatOptionProblem, optionEntries } from '../../src/options/catalogue.js'
import { type LoadInput, type LoadResult, loadOptions } from '../../src/options/load.js'
import { readOption } from '../../src/options/read.js'

const FOLDER = '/work-folder'

function load(input: Partial<LoadInput> = {}): Promise<LoadResult> {
  return loadOptions({ flags: [], environment: {}, folder: FOLDER, ...input })
}

async function good(input: Partial<LoadInput> = {}) {
  const result = await load(input)
  if (!result.ok) throw new Error(result.problems.map(formatOptionProblem).join('\n'))
  return result
}

/** The lines of a load that fails. */
async function refused(t: Test, input: Partial<LoadInput>): Promise<string[]> {
  const result = await load(input)
  t.equal(result.ok, false, 'the options are refused')
  return result.ok ? [] : result.problems.map(formatOptionProblem)
}

/** A file `sluice.yaml` with `text`. */
function file(t: Test, text: string): Pick<LoadInput, 'config' | 'folder'> {
  return { config: 'sluice.yaml', folder: t.testdir({ 'sluice.yaml': text }) }
}

t.test('without anything the defaults hold', async (t) => {
  const { options, origins, warnings } = await good()
  t.same(options, {
    cache: true,
    edges_on_http: 'serve',
    error_bodies: true,
    file_folders: [],
    hsts: { max_age: 0, include_subdomains: false, preload: false },
    listen: { host: '127.0.0.1', port: 8080, preset: true },
    listeners: [],
    path_form: 'strict',
    tcp_proxy_protocol: false,
    upstream_link_local: false,
    api: {
      listen: { host: '127.0.0.1', port: 4040 },
      allowed_hosts: [],
      rate_limit: undefined,
      cors_origins: [],
      dashboard: true,
      session_idle: 1_800_000,
      session_longest: 43_200_000
    },
    status_page: false,
    zone: 'sluice.localhost',
    regions: ['global'],
    require_reserved: false,
    data: join(FOLDER, 'data'),
    trusted_proxies: [],
    limits: {
      header_bytes: 65_536,
      headers: 200,
      target_bytes: 65_536,
      buffered_body: 1_048_576,
      buffered_bodies: 268_435_456,
      buffered_bodies_share: 0.1,
      buffered_body_rate: 1024,
      abort_on_close: false,
      stream_window: 4 * 1024 * 1024,
      stream_windows: 64 * 1024 * 1024,
      connections: 10_000,
      handshakes: 1_000,
      connections_per_address: 2_000,
      handshakes_per_address: 200
    },
    timeouts: {
      headers: 10_000,
      keep_alive: 75_000,
      request_body: 30_000,
      buffered_body: 60_000,
      connect: 5_000,
      response: 60_000,
      idle: 600_000,
      half_closed: 30_000,
      tcp_keep_alive: 60_000,
      drain: 30_000
    },
    access_log: true,
    access_log_sample: 1,
    access_log_format: 'json',
    log: { level: 'info', buffer: 4_194_304 },
    recorder: { memory: 16_777_216, bodies: 0, file_bytes: 67_108_864 },
    otlp: {
      enabled: true,
      traces: true,
      metrics: false,
      metrics_interval: 60_000,
      protocol: 'http/protobuf',
      headers: {},
      compression: 'none',
      timeout: 10_000,
      queue: 8_388_608,
      delay: 1_000,
      service_name: 'sluice',
      resource_attributes: {}
    },
    traces: { sampler: 'parentbased_always_on', ratio: 1, propagation: 'tracecontext', accept_from: 'trusted_proxies' },
    rate_limit_headers: 'none',
    limiter: { budget: 1_073_741_824, scope: 'server', short_windows: false, top_keys: true, checkpoint: 5_000 },
    geoip: {},
    outbound: { allow_private: false },
    acme: { agree_terms: false, directory: 'https://acme-v02.api.letsencrypt.org/directory', orders: 300 },
    dns: { addresses: [], resolver: 'own', servers: [] },
    login: { stored_sessions: 256 * 1024 * 1024 },
    waf: { skip_unknown: false },
    events: {},
    jwt: { key_folders: [] },
    history: 10_000,
    via: 'sluice',
    region: '',
    engine: 'codec',
    workers: 0,
    worker: { silence: 5_000 },
    metrics: true
  })
  t.same(warnings, [])
  t.ok([...origins.values()].every(({ kind }) => kind === 'default'))
})

t.test('keys of tokens are read from the folder of the options file, unless it names others', async (t) => {
  const folders = async (input: Parameters<typeof good>[0]) => (await good(input)).options.jwt.key_folders
  t.same(await folders({}), [], 'without a file from nowhere')
  const plain = file(t, 'region: eu')
  t.same(await folders(plain), [plain.folder])
  t.same(await folders({ ...plain, environment: { SLUICE_JWT_KEY_FOLDERS: '/etc/keys, keys' } }), [
    '/etc/keys',
    join(plain.folder, 'keys')
  ])
})

t.test('a list of folders in the options file', async (t) => {
  const folders = async (input: Parameters<typeof good>[0]) => (await good(input)).options.jwt.key_folders
  const named = file(t, 'jwt: { key_folders: [keys, /etc/keys] }')
  t.same(await folders(named), [join(named.folder, 'keys'), '/etc/keys'])
  t.same(
    await folders({ ...named, config: 'none.yaml', folder: t.testdir({ 'none.yaml': 'jwt: { key_folders: [] }' }) }),
    []
  )
})

t.test('ports for endpoints of agents', async (t) => {
  const { options } = await good({ environment: { SLUICE_AGENTS_TCP_PORTS: '20000-20999' } })
  t.same(options.agents_tcp_ports, { from: 20_000, to: 20_999 })
  t.equal(options.agents, undefined)
  for (const wrong of ['20000', '20999-20000', '80-90', '60000-70000']) {
    t.match(await refused(t, { environment: { SLUICE_AGENTS_TCP_PORTS: wrong } }), [/two ports such as 20000-20999/])
  }
})

t.test('flags win over environment, environment over file, file over defaults', async (t) => {
  const input = {
    ...file(t, 'listen: 127.0.0.1:1001\napi:\n  listen: 127.0.0.1:1002\nlimits: { headers: 31 }\nregion: file\n'),
    environment: { SLUICE_LISTEN: '127.0.0.1:2001', SLUICE_API_LISTEN: '127.0.0.1:2002', SLUICE_LIMITS_HEADERS: '' },
    flags: [{ flag: '--listen', option: 'listen', text: '127.0.0.1:3001' }]
  }
  const { options, origins } = await good(input)
  t.equal(options.listen.port, 3001)
  t.equal(options.api.listen.port, 2002)
  t.equal(options.limits.headers, 31, 'an empty variable counts as not set')
  t.equal(options.region, 'file')
  t.equal(options.log.level, 'info')
  t.same(origins.get('listen'), { kind: 'flag', flag: '--listen' })
  t.same(origins.get('api.listen'), { kind: 'environment', variable: 'SLUICE_API_LISTEN' })
  t.same(origins.get('limits.headers'), { kind: 'file', file: 'sluice.yaml', line: 4, column: 20 })
})

t.test('a file is read only when one is named, by flag or by SLUICE_CONFIG', async (t) => {
  const { folder } = file(t, 'region: here')
  t.equal((await good({ folder })).options.region, '')
  const named = await good({ folder, environment: { SLUICE_CONFIG: 'sluice.yaml' } })
  t.equal(named.options.region, 'here')
  t.equal(named.file, join(folder, 'sluice.yaml'))
  t.same(await refused(t, { folder, config: 'missing.yaml' }), [
    'missing.yaml:1:1: error: there is no such file (ENOENT); correct the path'
  ])
  t.same(await refused(t, { folder, config: '.' }), ['.:1:1: error: it is a folder (EISDIR); name a file'])
})

t.test('relative paths start at the file that names them, or at the working folder', async (t) => {
  const folder = t.testdir({ etc: { 'sluice.yaml': 'policy: p.yaml\ndata: ../var\nupstream: http://a:1\n' } })
  const { options } = await good({ folder, config: 'etc/sluice.yaml' })
  t.equal(options.policy, join(folder, 'etc', 'p.yaml'))
  t.equal(options.data, join(folder, 'var'))
  const other = await good({
    folder,
    config: 'etc/sluice.yaml',
    environment: { SLUICE_POLICY: 'q.yaml' },
    flags: [{ flag: '--data', option: 'data', text: ':memory:' }]
  })
  t.equal(other.options.policy, join(folder, 'q.yaml'))
  t.equal(other.options.data, ':memory:')
})

t.test('values are read into what the program works with', async (t) => {
  const { options } = await good({
    environment: {
      SLUICE_LISTEN: '[::]:0',
      SLUICE_UPSTREAM: 'https://[2001:db8::1]',
      SLUICE_API_PUBLIC_URL: 'https://Sluice.example.com:8443/',
      SLUICE_API_ALLOWED_HOSTS: 'a.example, B.example,',
      SLUICE_TRUSTED_PROXIES: '10.1.2.3/8,2001:db8::/32,192.0.2.1',
      SLUICE_LIMITS_HEADER_BYTES: '16 KiB',
      SLUICE_LIMITS_TARGET_BYTES: '2048',
      SLUICE_TIMEOUTS_DRAIN: '1m30s',
      SLUICE_TIMEOUTS_IDLE: '0s',
      SLUICE_TIMEOUTS_HEADERS: '7',
      SLUICE_ACCESS_LOG: 'off',
      SLUICE_ACCESS_LOG_SAMPLE: '.25',
      SLUICE_RATE_LIMIT_HEADERS: 'draft'
    }
  })
  t.match(options, {
    listen: { host: '::', port: 0 },
    upstream: { protocol: 'https', host: '2001:db8::1', port: 443 },
    api: { public_url: 'https://sluice.example.com:8443', allowed_hosts: ['a.example', 'b.example'] },
    trusted_proxies: ['10.0.0.0/8', '2001:db8::/32', '192.0.2.1/32'],
    limits: { header_bytes: 16_384, target_bytes: 2_048 },
    timeouts: { drain: 90_000, idle: 0, headers: 7_000 },
    access_log: false,
    access_log_sample: 0.25,
    rate_limit_headers: 'draft'
  })
})

t.test('a bad value names option, value, what is allowed, and where it came from', async (t) => {
  const cases: [variable: string, text: string, allowed: string][] = [
    ['SLUICE_LISTEN', '8080', 'host:port'],
    ['SLUICE_LISTEN', ':8080', 'host:port'],
    ['SLUICE_LISTEN', 'localhost', 'host:port'],
    ['SLUICE_LISTEN', '127.0.0.1:65536', 'host:port'],
    ['SLUICE_LISTEN', '127.0.0.1:-1', 'host:port'],
    ['SLUICE_UPSTREAM', '127.0.0.1', 'http://host:port or https://host:port'],
    ['SLUICE_UPSTREAM', 'ftp://a:1', 'http://host:port or https://host:port'],
    ['SLUICE_UPSTREAM', 'http://a:1/a%2fb', 'its path must begin with "/" and be a path alone'],
    ['SLUICE_UPSTREAM', 'http://a:1/?q', 'without a query'],
    ['SLUICE_UPSTREAM', 'ftp://unix:/run/app.sock', 'http://unix:/run/app.sock'],
    ['SLUICE_UPSTREAM', `unix:/${'a'.repeat(107)}`, 'at most 107 bytes'],
    ['SLUICE_UPSTREAM', 'http://a:0', 'a port from 1 to 65535'],
    ['SLUICE_API_PUBLIC_URL', 'https://a/base', 'without a path'],
    ['SLUICE_API_ALLOWED_HOSTS', 'a.example:80', 'host names without a port'],
    ['SLUICE_TRUSTED_PROXIES', '10.0.0.0/33', 'networks such as'],
    ['SLUICE_TRUSTED_PROXIES', '010.0.0.0/8', 'networks such as'],
    ['SLUICE_LIMITS_HEADER_BYTES', '64KB', 'from 1KiB to 1MiB'],
    ['SLUICE_LIMITS_HEADER_BYTES', '1023', 'from 1KiB to 1MiB'],
    ['SLUICE_LIMITS_HEADERS', '1e2', 'a whole number, from 8 to 10000'],
    ['SLUICE_LIMITS_HEADERS', '-1', 'a whole number, from 8 to 10000'],
    ['SLUICE_TIMEOUTS_HEADERS', 'soon', 'a duration such as'],
    ['SLUICE_TIMEOUTS_HEADERS', '999ms', 'from 1s to 1h'],
    ['SLUICE_ACCESS_LOG', 'yes', 'on or off'],
    ['SLUICE_ACCESS_LOG_SAMPLE', '1.01', 'a number from 0 to 1'],
    ['SLUICE_LOG_LEVEL', 'inof', 'did you mean "info"?'],
    ['SLUICE_ENGINE', 'nginx', 'codec']
  ]
  for (const [variable, text, allowed] of cases) {
    const lines = await refused(t, { environment: { [variable]: text } })
    t.equal(lines.length, 1)
    t.ok(lines[0]?.startsWith(`${variable}: error: `), `${lines[0]} begins with its origin`)
    t.ok(lines[0]?.includes(`${JSON.stringify(text)} is not allowed; give `), `${lines[0]} names the value`)
    t.ok(lines[0]?.includes(allowed), `${lines[0]} says ${allowed}`)
  }
  const [flag] = await refused(t, { flags: [{ flag: '--listen', option: 'listen', text: 'x' }] })
  t.match(flag, /^--listen: error: listen: "x" is not allowed; give host:port/)
})

t.test('a password in an upstream is not repeated', async (t) => {
  const [line = ''] = await refused(t, { environment: { SLUICE_UPSTREAM: 'http://user:hunter22@a:1' } })
  t.notMatch(line, /hunter22|user:/)
  t.match(line, 'without user name and password')
})

t.test('all problems of a file are told, each with its place', async (t) => {
  const text = [
    'listn: 127.0.0.1:80',
    'limits:',
    '  headers: many',
    '  header_byte: 1KiB',
    'api: 127.0.0.1:4040',
    'access_log: "on"',
    'timeouts:',
    '  drain: 5 s',
    'trusted_proxies: [10.0.0.0/8, nowhere]',
    'region:'
  ].join('\n')
  t.same(await refused(t, file(t, text)), [
    'sluice.yaml:1:1: error: listn: there is no such option; did you mean "listen"?',
    'sluice.yaml:4:3: error: limits.header_byte: there is no such option; did you mean "header_bytes"?',
    'sluice.yaml:5:6: error: api: must hold options: listen, public_url, allowed_hosts, rate_limit, cors_origins, dashboard, session_idle, session_longest',
    'sluice.yaml:3:12: error: limits.headers: "many" is not allowed; give a whole number, from 8 to 10000',
    'sluice.yaml:8:10: error: timeouts.drain: "5 s" is not allowed; give a duration such as 250ms, 10s or 1m30s, or a number of seconds, from 0s to 1h',
    'sluice.yaml:9:18: error: trusted_proxies: ["10.0.0.0/8","nowhere"] is not allowed; give a list of networks such as 10.0.0.0/8 or 2001:db8::/32; "nowhere" is none'
  ])
})

t.test('what is no YAML, and a file without options, are told', async (t) => {
  const [syntax = ''] = await refused(t, file(t, 'listen: [\nregion: x\n'))
  t.match(syntax, /^sluice\.yaml:\d+:\d+: error: this is not valid YAML: /)
  const [twice = ''] = await refused(t, file(t, 'region: a\nregion: b\n'))
  t.match(twice, /^sluice\.yaml:2:1: error: this is not valid YAML: /)
  t.match((await refused(t, file(t, '- a\n')))[0], /^sluice\.yaml:1:1: error: the file must hold options/)
  t.equal((await load(file(t, '# nothing but a comment\n'))).ok, true)
})

t.test('a value that a stronger source overrides is still checked', async (t) => {
  const lines = await refused(t, {
    ...file(t, 'listen: nowhere\n'),
    flags: [{ flag: '--listen', option: 'listen', text: '127.0.0.1:1' }]
  })
  t.match(lines[0], /^sluice\.yaml:1:9: error: listen: /)
})

t.test('an unknown variable is a warning with a suggestion', async (t) => {
  const { warnings } = await good({
    environment: { SLUICE_LISTNE: 'x', SLUICE_API_KEY: 'x'.repeat(20), SLUICE_CONFIG: '', PATH: '/bin' }
  })
  t.same(warnings.map(formatOptionProblem), [
    'SLUICE_LISTNE: warning: no option has this variable; did you mean "SLUICE_LISTEN"?'
  ])
})

t.test('options that contradict each other are refused', async (t) => {
  const same = { SLUICE_LISTEN: '127.0.0.1:4040' }
  t.match((await refused(t, { environment: same }))[0], 'api.listen: is the address of listen (SLUICE_LISTEN)')
  t.equal((await load({ environment: { SLUICE_LISTEN: '127.0.0.1:0', SLUICE_API_LISTEN: '127.0.0.1:0' } })).ok, true)
  const loop = { SLUICE_UPSTREAM: 'http://127.0.0.1:8080' }
  t.match((await refused(t, { environment: loop }))[0], 'the proxy would forward to itself')
  const plain = { SLUICE_UPSTREAM: 'http://a:1', SLUICE_UPSTREAM_CA: 'ca.pem' }
  t.match((await refused(t, { environment: plain }))[0], 'SLUICE_UPSTREAM_CA: error: upstream_ca: needs an upstream')
})

t.test('agents have an address of their own, or share that of a listener with TLS', async (t) => {
  const why = async (environment: Record<string, string>) => (await refused(t, { environment }))[0]
  t.match(await why({ SLUICE_AGENTS: '127.0.0.1:8080' }), 'agents: is the address of listen (default)')
  t.match(await why({ SLUICE_AGENTS: '0.0.0.0:4040' }), 'agents: is the address of api.listen')
  const dns = { SLUICE_DNS_LISTEN: '127.0.0.1:53', SLUICE_AGENTS: '127.0.0.1:53' }
  t.match(await why(dns), 'agents: is the address of dns.listen (SLUICE_DNS_LISTEN)')
  const at = { SLUICE_AGENTS: '127.0.0.1:8443' }
  t.match(await why({ ...at, SLUICE_LISTENERS: 'http://127.0.0.1:8443' }), /is without TLS/)
  t.match(
    await why({ ...at, SLUICE_LISTENERS: 'https://0.0.0.0:8443' }),
    /overlaps with listeners\[0\] \(0\.0\.0\.0:8443\)/
  )
  t.ok((await good({ environment: { ...at, SLUICE_LISTENERS: 'https://127.0.0.1:8443' } })).options.agents)
  t.ok((await good({ environment: { SLUICE_AGENTS: '127.0.0.1:0', SLUICE_LISTEN: '127.0.0.1:0' } })).options.agents)
  const { warnings } = await good({ environment: { SLUICE_AGENTS_TCP_PORTS: '20000-20999' } })
  t.match(warnings.map(formatOptionProblem), [/agents_tcp_ports: is used only together with agents/])
})

t.test('every option is described, has its own variable, and a default that its reader takes', (t) => {
  const entries = optionEntries()
  t.equal(new Set(entries.map(({ variable }) => variable)).size, entries.length)
  for (const { path, variable, schema } of entries) {
    t.match(variable, /^SLUICE_[A-Z_]+$/)
    t.ok(schema.description.length > 10, `${path} is described`)
    if (schema.default !== undefined) t.equal(readOption(schema.default, schema, '/').ok, true, `${path}: its default`)
  }
  t.end()
})

t.test('the file that is shipped shows every option with its default', async (t) => {
  const text = await readFile('config/sluice.yaml', 'utf8')
  const shown = parse(text.replace(/^( *)#(?=\S)/gm, '$1')) as Record<string, unknown>
  for (const { path, steps, schema } of optionEntries()) {
    const value = steps.reduce<unknown>((level, step) => (level as Record<string, unknown> | undefined)?.[step], shown)
    t.not(value, undefined, `${path} is shown`)
    if (schema.default !== undefined && path !== 'data')
      t.same(value, schema.default, `${path} is shown with its default`)
  }
  const asShipped = await good({ config: 'config/sluice.yaml', folder: process.cwd() })
  const plain = await good({ folder: process.cwd() })
  const ofPlace = { policy: undefined, jwt: undefined }
  t.same({ ...asShipped.options, ...ofPlace }, { ...plain.options, ...ofPlace })
})

t.test('sizes are read as written and written as read', (t) => {
  for (const bytes of [0, 1, 1023, 1024, 1536, 65_536, 1024 ** 2, 3 * 1024 ** 3, 1024 ** 3 + 1]) {
    t.equal(parseSize(formatSize(bytes)), bytes)
  }
  for (const text of ['', 'KiB', '1kib', '1K', '1KB', '-1', '1.5MiB', '1  KiB', ' 1', '9'.repeat(16)]) {
    t.equal(parseSize(text), undefined, JSON.stringify(text))
  }
  t.end()
})

t.test(
  'where the store is: a path from the folder on, memory, or PostgreSQL, whose password is in no message',
  async (t) => {
    const store = async (text: string) => (await good({ environment: { SLUICE_STORE: text } })).options.store
    t.equal(await store('records.db'), join(FOLDER, 'records.db'))
    t.equal(await store(':memory:'), ':memory:')
    t.equal(await store('postgres://sluice:secret@db/sluice'), 'postgres://sluice:secret@db/sluice')
    const [line = ''] = await refused(t, { environment: { SLUICE_STORE: 'mysql://sluice:secret@db/sluice' } })
    t.match(line, /store/)
    t.notMatch(line, 'secret')
  }
)

t.test('the rate of the API, its foreign origins, the zone and the regions are read', async (t) => {
  const { options, warnings } = await good({
    environment: {
      SLUICE_API_RATE_LIMIT: '20/1m',
      SLUICE_API_CORS_ORIGINS: 'https://console.example.com, http://localhost:3000',
      SLUICE_ZONE: 'Apps.Example.com',
      SLUICE_REGIONS: 'eu,us',
      SLUICE_SEAL_KEY: 'no option'
    }
  })
  t.same(options.api.rate_limit, { requests: 20, window: 60_000 })
  t.same(options.api.cors_origins, ['https://console.example.com', 'http://localhost:3000'])
  t.equal(options.zone, 'apps.example.com')
  t.same(options.regions, ['eu', 'us'])
  t.same(warnings, [])
  t.equal((await good({ environment: { SLUICE_API_RATE_LIMIT: 'off' } })).options.api.rate_limit, undefined)
  for (const [variable, text] of [
    ['SLUICE_API_RATE_LIMIT', '0/60s'],
    ['SLUICE_API_RATE_LIMIT', '20'],
    ['SLUICE_API_RATE_LIMIT', '20/0s'],
    ['SLUICE_ZONE', 'example.com:80'],
    ['SLUICE_REGIONS', 'EU'],
    ['SLUICE_REGIONS', ',']
  ] as const)
    t.equal((await refused(t, { environment: { [variable]: text } })).length, 1, `${variable}=${text}`)
})

t.test('a listener may be a port, or host and port', async (t) => {
  const cases: [written: string, host: string, port: number, tls?: boolean][] = [
    ['8080', '0.0.0.0', 8080],
    ['":8080"', '0.0.0.0', 8080],
    ['"*:8080"', '0.0.0.0', 8080],
    ['"8081"', '0.0.0.0', 8081],
    ['localhost:3000', 'localhost', 3000],
    ['"[::]:81"', '::', 81],
    ['"https://:8443"', '0.0.0.0', 8443, true],
    ['{ listen: 8082, tls: on }', '0.0.0.0', 8082, true],
    ['{ listen: ":8082" }', '0.0.0.0', 8082]
  ]
  for (const [written, host, port, tls = false] of cases) {
    const { listeners } = (await good(file(t, `listeners: [${written}]`))).options
    t.match(listeners, [{ listen: { host, port }, tls }], written)
  }
  const { listeners } = (await good({ environment: { SLUICE_LISTENERS: ':80, https://:443' } })).options
  t.match(listeners, [
    { listen: { port: 80 }, tls: false },
    { listen: { port: 443 }, tls: true }
  ])
  for (const written of ['443', '":443"', 'localhost:443'])
    t.match((await refused(t, file(t, `listeners: [${written}]`)))[0], /https:\/\/\S+:443, or http:/, written)
  for (const written of ['80.5', '70000', '-1', 'localhost', 'true', '{ listen: true }', '[80]'])
    t.match((await refused(t, file(t, `listeners: [${written}]`)))[0], /host:port|maps of/, written)
})

t.test('listeners are maps or URLs, in a file or joined by commas', async (t) => {
  const wanted = [
    { listen: { host: '0.0.0.0', port: 8443 }, tls: true, public_port: 443, proxy_protocol: false },
    { listen: { host: '::1', port: 8081 }, tls: false, public_port: undefined, proxy_protocol: true }
  ]
  const maps = `
listeners:
  - { listen: 0.0.0.0:8443, tls: on, public_port: 443 }
  - listen: '[::1]:8081'
    proxy_protocol: on
`
  t.same((await good(file(t, maps))).options.listeners, wanted)
  const lenient = 'http://[::1]:8081?path_form=lenient'
  t.match((await good({ environment: { SLUICE_LISTENERS: lenient } })).options.listeners, [{ path_form: 'lenient' }])
  const urls = 'https://0.0.0.0:8443?public_port=443, http://[::1]:8081?proxy_protocol=on'
  t.same((await good({ environment: { SLUICE_LISTENERS: urls } })).options.listeners, wanted)
  t.same((await good(file(t, `listeners: [${JSON.stringify(urls.split(', ')[0])}]`))).options.listeners, [wanted[0]])
  const why = async (text: string) => (await refused(t, { environment: { SLUICE_LISTENERS: text } }))[0]
  t.match(await why('tcp://127.0.0.1:1'), /URLs such as http/)
  t.match(await why('https://127.0.0.1'), /host:port/)
  t.match(await why('https://127.0.0.1:1?public_prt=443'), /did you mean "public_port"/)
  t.match(await why('https://127.0.0.1:1?public_port=70000'), /1 to 65535/)
  t.match(await why('https://127.0.0.1:1?proxy_protocol=yes'), /on or off/)
  t.match(await why('https://127.0.0.1:1?path_form=loose'), /strict, lenient or exact/)
  t.match((await refused(t, file(t, 'listeners: [{ listen: 127.0.0.1:1, tsl: on }]')))[0], /did you mean "tls"/)
  const asked = { SLUICE_LISTEN: '127.0.0.1:8080', SLUICE_LISTENERS: 'http://127.0.0.1:8080' }
  t.match((await refused(t, { environment: asked }))[0], /is the address of listen/)
  t.match(await why('http://127.0.0.1:4040'), /is the address of api.listen/)
  t.match(await why('http://127.0.0.1:1,https://127.0.0.1:1'), /another listener/)
})
