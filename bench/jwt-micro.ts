import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { offline, policyServices } from '../src/app/services.js'
import { actions } from '../src/features/registry.js'
import type { Flow } from '../src/flow/flow.js'
import { compilePolicy } from '../src/policy/compile.js'
import type { CompiledPhase } from '../src/policy/run.js'
import { requestFlow } from './request-flow.js'
import { cpuSince, type MicroResult, timed } from './timing.js'

const ISSUER = 'https://issuer.example/'
const AUDIENCE = 'https://api.example'
/** Tokens whose signature is new, of each algorithm. */
const NEW = 1_000

interface Key {
  readonly alg: 'RS256' | 'ES256' | 'EdDSA'
  readonly privateKey: KeyObject
  readonly publicKey: KeyObject
}

/** What `jwt-validation` costs: a token that was seen before, and a first signature of each kind. */
export async function jwtMicro(): Promise<MicroResult[]> {
  const keys: readonly Key[] = [
    { alg: 'RS256', ...generateKeyPairSync('rsa', { modulusLength: 2048 }) },
    { alg: 'ES256', ...generateKeyPairSync('ec', { namedCurve: 'P-256' }) },
    { alg: 'EdDSA', ...generateKeyPairSync('ed25519') }
  ]
  const phase = compiled(keys)
  const token = tokenOf(keys[0] as Key, 0)
  if ((await phase.run(flowWith(token))) !== undefined) throw new Error('The token is refused')
  let passed = 0
  const bare = timed(200_000, () => {
    if (flowWith(token).request?.headers.get('authorization') !== undefined) passed++
  })
  const known = timed(200_000, () => {
    if (phase.run(flowWith(token)) === undefined) passed++
  })
  const results: MicroResult[] = [
    {
      name: `jwt: a token of ${token.length} characters that was seen before`,
      nanoseconds: known - bare,
      note: `${passed} passed`
    }
  ]
  for (const key of keys) results.push(await first(phase, key))
  return results
}

/** CPU of all threads for tokens that were never seen, one after the other. */
async function first(phase: CompiledPhase, key: Key): Promise<MicroResult> {
  const tokens = Array.from({ length: NEW }, (_, i) => tokenOf(key, i + 1))
  const before = process.cpuUsage()
  for (const token of tokens) {
    if ((await phase.run(flowWith(token))) !== undefined) throw new Error(`${key.alg}: the token is refused`)
  }
  return { name: `jwt: a first signature, ${key.alg}`, nanoseconds: cpuSince(before) / NEW, note: 'CPU' }
}

function compiled(keys: readonly Key[]): CompiledPhase {
  const config = {
    issuer: { allow_list: [{ value: ISSUER }] },
    audience: { allow_list: [{ value: AUDIENCE }] },
    http: { tokens: [{ type: 'access_token', method: 'header', name: 'Authorization', prefix: 'Bearer ' }] },
    jws: {
      allowed_algorithms: keys.map(({ alg }) => alg),
      keys: {
        sources: { inline: keys.map(({ alg, publicKey }) => ({ ...publicKey.export({ format: 'jwk' }), kid: alg })) }
      }
    }
  }
  const { policy, problems } = compilePolicy(
    JSON.stringify({ on_http_request: [{ actions: [{ type: 'jwt-validation', config }] }] }),
    {
      owner: 'bench',
      services: policyServices(offline(actions)),
      keep: { keep: (key, make) => make(JSON.stringify(key)) },
      actions,
      unavailable: 'refuse'
    }
  )
  const phase = policy?.phases.on_http_request
  if (phase === undefined || phase === null) throw new Error(JSON.stringify(problems))
  return phase
}

/** About the size of what identity providers hand out. */
function tokenOf({ alg, privateKey }: Key, id: number): string {
  const now = Math.floor(Date.now() / 1_000)
  const claims = {
    ...{ iss: ISSUER, aud: [AUDIENCE, 'https://issuer.example/userinfo'], sub: 'auth0|5f7c8ec7c33c6c004bbafe82' },
    ...{
      iat: now,
      exp: now + 3_600,
      jti: `token-${id}`,
      azp: 'x'.repeat(32),
      scope: 'openid profile email read:orders'
    },
    permissions: ['read:orders', 'write:orders', 'read:customers']
  }
  const parts = [{ alg, typ: 'at+jwt', kid: alg }, claims]
  const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  const options = alg === 'ES256' ? ({ key: privateKey, dsaEncoding: 'ieee-p1363' } as const) : privateKey
  return `${text}.${sign(alg === 'EdDSA' ? null : 'sha256', Buffer.from(text), options).toString('base64url')}`
}

function flowWith(token: string): Flow {
  return requestFlow(['Host', 'app.example.com', 'Accept', '*/*', 'Authorization', `Bearer ${token}`])
}
