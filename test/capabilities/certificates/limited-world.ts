import type { Certificates } from '../../../src/capabilities/certificates/certificates.js'
import { ManualClock } from '../../helpers/clock.js'
import { type Allowance, type Strictness, startIssuingAuthority } from './issuing-authority.js'
import { isIssued, LETSENCRYPT, Managed } from './managed.js'

interface Test {
  teardown(run: () => Promise<void> | void): void
}

export const KIND = 'reserved_domain'
const NOW = Date.UTC(2027, 0, 1)
const DAY = 86_400_000

/** What Let's Encrypt allows an address and an account. */
export const PUBLIC: Readonly<Record<string, Allowance>> = {
  directory: { burst: 40, perSecond: 40 },
  nonce: { burst: 10, perSecond: 20 },
  account: { burst: 15, perSecond: 5 },
  orders: { burst: 300, perSecond: 300 / 10_800 }
}

/** An authority that asks for proofs of names, and the certificates that are requested from it. */
export async function openWorld(t: Test, strict: Omit<Strictness, 'proof'>, orderLimit = 300) {
  const clock = new ManualClock(NOW)
  let certificates: Certificates | undefined
  const proof = (host: string, path: string) => certificates?.challenges.answer(host, path)
  const ca = await startIssuingAuthority(t, clock, 90 * DAY, { ...strict, proof })
  const managed = await Managed.open(t, { clock, authority: { ...ca.authority, orderLimit }, dns: false })
  certificates = managed.certificates
  const ids: string[] = []
  const reserve = async (domain: string) => {
    const { id } = await managed.create(KIND, { domain, ...LETSENCRYPT })
    ids.push(id)
    return id
  }
  const count = async (is: typeof isIssued) => {
    let found = 0
    for (const id of ids) if (is(await managed.get(KIND, id))) found++
    return found
  }
  const started = clock.monotonic()
  /** Goes on, a second (or `step` milliseconds) at a time, until so many are issued; answers how many seconds that took since the start. */
  const until = async (issued: number, most: number, step = 1_000) => {
    for (let second = 0; second < most; second++) {
      await managed.certificates.tick()
      // Reading every record costs most of such a step.
      if ((ca.counts.requests.get('certificate') ?? 0) >= issued && (await count(isIssued)) >= issued) break
      clock.advance(step)
    }
    return (clock.monotonic() - started) / 1_000
  }
  return { ...ca, managed, clock, reserve, count, until, ids }
}
