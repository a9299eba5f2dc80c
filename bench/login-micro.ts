import { randomBytes } from 'node:crypto'
import { offline, policyServices } from '../src/app/services.js'
import { createGate } from '../src/features/login/gate.js'
import { defaultProviders } from '../src/features/login/operator-providers.js'
import { PROVIDERS } from '../src/features/login/providers.js'
import { type GateSettings, Login, logins, realmOf } from '../src/features/login/service.js'
import { encodeSession } from '../src/features/login/session.js'
import type { Flow } from '../src/flow/flow.js'
import { systemClock } from '../src/lib/clock.js'
import { provide } from '../src/policy/services.js'
import { requestFlow } from './request-flow.js'
import { cpu, type MicroResult } from './timing.js'

const USERS = 1_000
const ROUNDS = 300_000
const FIELDS = [
  ...['Host', 'app.example.com', 'User-Agent', 'bench', 'Accept', '*/*', 'Accept-Encoding', 'gzip'],
  ...['X-Forwarded-For', '192.0.2.1', 'X-Forwarded-Proto', 'http', 'X-Forwarded-Host', 'app.example.com']
]

/** What a login gate adds to a request with a session, beside the same request without a gate. */
export function loginMicro(): MicroResult[] {
  const settings: GateSettings = {
    result: 'oauth',
    owner: 'route',
    authId: '',
    provider: PROVIDERS.google,
    client: 'client',
    application: () => ({ id: 'client', secret: 'secret' }),
    scopes: [],
    parameters: {},
    cookiePrefix: 'sluice.',
    cookieDomain: undefined,
    inactivity: 3_600_000,
    maximum: 86_400_000,
    lasting: false,
    providerLogout: false,
    check: 600_000,
    preflight: 'none',
    access: { email_domains: ['example.com'] }
  }
  const outbound = { request: () => Promise.reject(new Error('nobody is asked')), close: () => undefined }
  const login = new Login({ keys: [randomBytes(32)], providers: defaultProviders(), outbound, clock: systemClock })
  const services = policyServices({ ...offline([]), outbound }, [provide(logins, login)])
  const gate = createGate(settings, services)
  const vault = login.vault(realmOf(settings))
  const lines = Array.from({ length: USERS }, (_, i) => {
    const name = `sluice.session.${vault.tag}`
    return Buffer.from(`theme=dark; ${name}=${vault.seal(sessionOf(i), 'session')}; lang=en`)
  })
  let at = 0
  let passed = 0
  const bare = () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer)
    if (flow.request?.headers.get('host') !== undefined) passed++
  }
  cpu(ROUNDS / 3, bare)
  const without = cpu(ROUNDS, bare)
  const first = cpu(USERS, () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer)
    if (flow.request?.headers.get('host') !== undefined && gate.run(flow) === undefined) passed++
  })
  const gated = cpu(ROUNDS, () => {
    const flow = flowOf(lines[at++ % USERS] as Buffer)
    if (flow.request?.headers.get('host') !== undefined && gate.run(flow) === undefined) passed++
  })
  return [
    { name: 'login: a session that is in use', nanoseconds: gated - without, note: `${passed} passed` },
    { name: 'login: a session seen for the first time', nanoseconds: first - without }
  ]
}

/** The cookie line is made anew each time, as it comes from the wire. */
function flowOf(line: Buffer): Flow {
  return requestFlow([...FIELDS, 'Cookie', line.toString('latin1')])
}

function sessionOf(i: number): string {
  const now = systemClock.wall()
  return encodeSession({
    id: `session-${i}`,
    client: 'client',
    begun: now,
    ends: now + 3_600_000,
    checked: now,
    profile: { id: String(i), name: 'Ann', email: 'ann@example.com', emails: ['ann@example.com'] },
    teams: [],
    organizations: [],
    listed: '',
    accessToken: 'a'.repeat(200),
    refreshToken: 'r'.repeat(100),
    expiresAt: 0,
    number: 0,
    attributes: {},
    sid: '',
    identityToken: 'i'.repeat(900)
  })
}
