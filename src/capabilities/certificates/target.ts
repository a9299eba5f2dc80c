import {
  agentHosts,
  agentIngress,
  type CertificateWork,
  type ManagementStatus,
  type PendingChallenge,
  REQUESTED_KEY,
  reservedDomain
} from '../../resources/domains.js'
import type { RecordOf, Resource } from '../../resources/resource.js'
import type { ResourceRecord } from '../../schema/field.js'
import type { KeyType } from './acme.js'
import { dueOf, isRetryBeyond } from './renewal-times.js'

/** A record with a certificate that is managed, or was until now, or with a delegated domain. */
export interface ManagedCertificate {
  readonly kind: string
  readonly id: string
  /** Names of the certificate, the first one its subject. */
  readonly names: readonly string[]
  /** Type of the key; null once its management has ended. */
  readonly keyType: KeyType | null
  readonly certificate: string | null
  readonly status: ManagementStatus | null
  readonly work: CertificateWork | null
  /** Key of the certificate that is being requested. */
  readonly requestedKey: string | undefined
  /** Domain that is delegated to this service; null for none. */
  readonly delegated: string | null
  /** Returns the challenge for a name of the certificate. `name`: without the `*.` of a wildcard. */
  challenge(name: string): { readonly type: 'http-01' } | { readonly type: 'dns-01'; readonly record: string }
}

/** Options that determine challenges. */
export interface TargetOptions {
  readonly regions: readonly string[]
  /** Is there a DNS listener? */
  readonly dns: boolean
}

/** The kinds of records that have managed certificates. */
export const TARGET_KINDS: ReadonlyMap<string, Resource> = new Map<string, Resource>([
  [reservedDomain.name, reservedDomain],
  [agentIngress.name, agentIngress]
])

const NOTHING: readonly PendingChallenge[] = []

/** Returns the managed certificate of a record; undefined for other kinds. */
export function targetOf(record: ResourceRecord, options: TargetOptions): ManagedCertificate | undefined {
  if (record.kind === reservedDomain.name) return domainTarget(record as RecordOf<typeof reservedDomain>)
  if (record.kind === agentIngress.name) return ingressTarget(record as RecordOf<typeof agentIngress>, options)
  return undefined
}

export function challengesOf({ work }: ManagedCertificate): readonly PendingChallenge[] {
  return work?.challenges ?? NOTHING
}

function domainTarget(record: RecordOf<typeof reservedDomain>): ManagedCertificate | undefined {
  const { domain, certificate, acme_challenge_cname_target: record01 } = record.body
  const { certificate_management_policy: policy, certificate_work: work = null } = record.body
  if (policy === null && work === null) return undefined
  // A wildcard can only be proved by DNS (RFC 8555 7.1.3), where its owner points to a name of ours.
  const challenge = () =>
    record01 === null ? { type: 'http-01' as const } : { type: 'dns-01' as const, record: record01 }
  return { ...managed(record), names: [domain], certificate, delegated: null, challenge }
}

function ingressTarget(record: RecordOf<typeof agentIngress>, { regions, dns }: TargetOptions): ManagedCertificate {
  const { domain, certificate = null } = record.body
  // With a DNS listener the domain is delegated to our name servers.
  const challenge = (name: string) =>
    dns ? { type: 'dns-01' as const, record: `_acme-challenge.${name}` } : { type: 'http-01' as const }
  return { ...managed(record), names: agentHosts(domain, regions), certificate, delegated: domain, challenge }
}

function managed({ kind, id, body, secrets }: RecordOf<typeof reservedDomain> | RecordOf<typeof agentIngress>) {
  const { certificate_management_policy: policy, certificate_management_status: status } = body
  const keyType = policy === null ? null : policy.private_key_type === 'rsa' ? ('rsa' as const) : ('ecdsa' as const)
  // Records of an older version lack later fields.
  return { kind, id, keyType, status, work: body.certificate_work ?? null, requestedKey: secrets[REQUESTED_KEY] }
}

/**
 * Next action for a target. `moment`: milliseconds since the Unix epoch; Infinity if there is none. `wrong`: a time in the
 * record that is ignored, because a wrong clock wrote it.
 */
export type Stage = (
  | { readonly is: 'begin' | 'continue' | 'detach' }
  | { readonly is: 'wait'; readonly moment: number }
) & { readonly wrong?: 'retries_at' | 'renews_at' }

const NEVER: Stage = { is: 'wait', moment: Number.POSITIVE_INFINITY }

/** Returns the next action for a target at the time `now`. */
export function stageOf(target: ManagedCertificate, now: number): Stage {
  const { keyType, status, work, certificate, names } = target
  if (keyType === null) return work === null ? NEVER : { is: 'detach' }
  const job = status?.provisioning_job ?? null
  if (job !== null && job.error_code !== null) {
    // A failed job of an older version without a retry time is due.
    const moment = job.retries_at === null ? now : Date.parse(job.retries_at)
    return isRetryBeyond(moment, now) ? { is: 'begin', wrong: 'retries_at' } : at(moment, now)
  }
  if (job !== null) return { is: work?.order == null ? 'begin' : 'continue' }
  const issued = work?.issued ?? null
  const fits = issued !== null && issued.key_type === keyType && issued.names.join() === names.join()
  if (status === null || certificate === null || !fits) return { is: 'begin' }
  if (status.renews_at === null) return { is: 'begin' }
  const due = dueOf(Date.parse(status.renews_at), issued.validity)
  return { ...at(due.at, now), ...(due.wrong ? { wrong: 'renews_at' as const } : {}) }
}

function at(moment: number, now: number): Stage {
  return moment <= now ? { is: 'begin' } : { is: 'wait', moment }
}

/** Returns the expected start of a queued request; undefined if it is not queued. */
export function turnOf({ status }: ManagedCertificate): string | undefined {
  const job = status?.provisioning_job
  return job?.error_code === null ? (job.retries_at ?? undefined) : undefined
}

/** Compares targets: queued ones first, by their expected start. */
export function byTurn(a: ManagedCertificate, b: ManagedCertificate): number {
  const [first = '~', second = '~'] = [turnOf(a), turnOf(b)]
  return first === second ? 0 : first < second ? -1 : 1
}
