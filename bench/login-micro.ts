import { randomBytes } from 'node:crypto'
import { type EntryFacts, Flow } from '../src/exchange/flow.js'
import { HeaderFields } from '../src/exchange/headers.js'
import { RequestTarget } from '../src/exchange/target.js'
import { systemClock } from '../src/lib/clock.js'
import { accessOf } from '../src/policy/login/access.js'
import { createGate } from '../src/policy/login/gate.js'
import { Login } from '../src/policy/login/login.js'
import { defaultProviders } from '../src/policy/login/operator-providers.js'
import { PROVIDERS } from '../src/policy/login/providers.js'
import { encodeSession } from '../src/policy/login/session.js'
import { type GateSettings, type LoginServices, realmOf } from '../src/policy/login/settings.js'
import type { MicroResult } from './timing.js'

const USERS = 1_000
const ROUNDS = 300_000

/** What a login gate adds to a request with a session, beside the same request without a gate. */
export function loginMicro(): MicroResult[] {
  const settings: GateSettings = {
    result: 'oauth',
    owner: 'route',
    authId: '',
    provider: PROVIDERS.google,
    application: () => ({ id: 'client', secret: 'secret' }),
    scopes: [],
    parameters: {},
    cookiePrefix: 'sluice.',
    cookieDomain: undefined,
    inactivity: 3_600_000,
    maximum: 86_400_000,
    check: 600_000,
    preflight: 'none',
    access: accessOf({ email_domains: ['example.com'] })
  }
  const outbound = { request: () => Promise.reject(new Error('nobody is asked')), close: () => undefined }
  const login = new Login({ keys: [randomBytes(32)], providers: defaultProviders(), outbound, clock: systemClock })
  // A gate uses of the services these three.
  const services = { clock: systemClock, meter: {}, log: {}, login } as unknown as LoginServices
  const gate = createGate(settings, services)
  const vault = login.vault(realmOf(settings))
  const lines = Array.from({ length: USERS }, (_, i) => {
    const name = `sluice.session.${vault.tag}`
    return Buffer.from(`theme=dark; ${name}=${vault.seal(sessionOf(i), 'session')}; lang=en`)
  })
  const target = RequestTarget.fromUrl('http://app.example.com/api/v1/items') as RequestTarget
  let at = 0
  let passed = 0
  const bare = () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer, target)
    if (flow.request?.headers.get('host') !== undefined) passed++
  }
  cpu(ROUNDS / 3, bare)
  const without = cpu(ROUNDS, bare)
  const first = cpu(USERS, () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer, target)
    if (flow.request?.headers.get('host') !== undefined && gate(flow) === undefined) passed++
  })
  const gated = cpu(ROUNDS, () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer, target)
    if (flow.request?.headers.get('host') !== undefined && gate(flow) === undefined) passed++
  })
  return [
    { name: 'login: a session that is in use', nanoseconds: gated - without, note: `${passed} passed` },
    { name: 'login: a session seen for the first time', nanoseconds: first - without }
  ]
}

/** CPU nanoseconds of one call, garbage collection and other threads included; waiting for a core is not. */
function cpu(calls: number, run: () => void): number {
  const begun = process.cpuUsage()
  for (let i = 0; i < calls; i++) run()
  const { user, system } = process.cpuUsage(begun)
  return ((user + system) * 1_000) / calls
}

const ENTRY: EntryFacts = { id: 'e', protocol: 'http', host: '', port: 80, region: '' }

/** The cookie line is made anew each time, as it comes from the wire. */
function flowOf(line: Buffer, target: RequestTarget): Flow {
  const headers = [
    'Host',
    'app.example.com',
    'User-Agent',
    'bench',
    'Accept',
    '*/*',
    'Accept-Encoding',
    'gzip',
    'Cookie',
    line.toString('latin1'),
    'X-Forwarded-For',
    '192.0.2.1',
    'X-Forwarded-Proto',
    'http',
    'X-Forwarded-Host',
    'app.example.com'
  ]
  const connection = {
    id: 1,
    listener: 'http',
    peer: { address: '192.0.2.1', port: 1 },
    local: { address: '192.0.2.2', port: 80 },
    startedAt: 0,
    bytesIn: 0,
    bytesOut: 0
  }
  const flow = new Flow(connection, ENTRY, '192.0.2.1', 1)
  const head = {
    method: 'GET',
    target: '/api/v1/items',
    authority: 'app.example.com',
    scheme: 'http',
    version: '1.1',
    headers
  } as const
  flow.request = {
    head,
    version: '1.1',
    method: 'GET',
    target,
    headers: new HeaderFields(headers),
    body: new Uint8Array(),
    receivedAt: 0
  }
  return flow
}

function sessionOf(i: number): string {
  const now = systemClock.wall()
  return encodeSession({
    id: `session-${i}`,
    client: 'client',
    begun: now,
    checked: now,
    profile: { id: String(i), name: 'Ann', email: 'ann@example.com', emails: ['ann@example.com'] },
    teams: [],
    organizations: [],
    accessToken: 'a'.repeat(200),
    refreshToken: 'r'.repeat(100),
    expiresAt: 0,
    identityToken: 'i'.repeat(900)
  })
}
