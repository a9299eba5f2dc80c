import type { Foundation, Host } from '../../app/foundation.js'
import { ClusterLimits, clusterLimits, limitRules } from '../../features/rate-limit/leases/cluster-limits.js'
import { newId } from '../../lib/id.js'
import { processHasEnded, processName } from '../../lib/process-name.js'
import type { Sealer } from '../../lib/seal.js'
import { isShared, storeAddress } from '../../options/catalogue.js'
import type { Options } from '../../options/options.js'
import { type Provided, provide } from '../../policy/services.js'
import type { ClusterThreads } from '../workers/thread-parts.js'

/** The limits over the cluster of a process. */
export interface OpenClusterLimits {
  readonly services: readonly Provided[]
  /** Ledger and identities for workers; undefined if the process is alone on its store. */
  readonly threads: ClusterThreads | undefined
}

/**
 * A member of the ledger where the store is one that processes share. It connects when the first policy with such a limit is
 * compiled. Where threads carry the traffic each is a member, and this one only looks.
 */
export async function openClusterLimits(
  options: Options,
  { threads, rehearsal }: Pick<Host, 'threads' | 'rehearsal'>,
  { clock, log, names, lifecycle }: Pick<Foundation, 'clock' | 'log' | 'names' | 'lifecycle'>,
  seal: Sealer
): Promise<OpenClusterLimits> {
  const address = storeAddress(options)
  const rules = provide(limitRules, options.limiter)
  const [secret] = seal.derive('limits')
  if (!isShared(address) || rehearsal === true || secret === undefined) return { services: [rules], threads: undefined }
  const { PostgresLimitLedger } = await import('../../store/limit-ledger.js')
  const ledger = new PostgresLimitLedger(address, { log, lookup: names.forSockets })
  const newMember = () => ({ secret, member: `${processName() ?? ''} ${newId('member', clock.wall())}` })
  const limits = new ClusterLimits({
    ledger,
    clock,
    ...newMember(),
    admits: threads === undefined,
    hasEnded: (member) => processHasEnded(member.split(' ', 1)[0] ?? '')
  })
  lifecycle.opens('limits of the cluster', { admissions: () => limits.close() })
  return {
    services: [rules, provide(clusterLimits, limits)],
    threads: { ledger, newMember, count: (elsewhere) => limits.countElsewhere(elsewhere) }
  }
}
