import { atMost } from '../lib/concurrency.js'
import { Access, Principals } from './access.js'
import { OwnUnits } from './apply.js'
import { type LiveSources, noLiveSources } from './cluster/live-sources.js'
import { Configuration, Follower } from './configuration.js'
import { Endpoints } from './endpoints.js'
import { buildParts, type ControlOptions, type ControlParts, type ServiceAccount } from './parts.js'
import { Policies } from './policies.js'
import { LiveRecords, Reads } from './reads.js'
import { RecordOperations } from './record-operations.js'
import { Reverts } from './reverts.js'
import { Revisions } from './revisions.js'
import { SESSION_LIFETIMES, Sessions } from './sessions.js'
import { Traffic } from './traffic.js'
import { Visitors } from './visitors.js'
import type { WriteGuards } from './write-guards.js'

/** Maximum time for closing a failed store, which may be unresponsive (ms). */
const CLOSING = 5_000

/** The part of a process that reads, writes and applies the records of the account, grouped by user. */
export interface ControlPlane {
  /** The API's operations on records. */
  readonly records: RecordOperations
  /** Decides which callers the management listener lets in. */
  readonly access: Access
  /** The running configuration. */
  readonly configuration: Configuration
  /** Reads of records. */
  readonly reads: Reads
  /** The history: changes with their authors and times. */
  readonly revisions: Revisions
  /** Reverts revisions. */
  readonly reverts: Reverts
  /** Traffic in numbers and as a map. */
  readonly traffic: Traffic
  /** Policies before they serve. */
  readonly policies: Policies
  /** Sessions of signed-in users. */
  readonly sessions: Sessions
  readonly serviceAccount: ServiceAccount
  /** Units of the process itself. */
  readonly own: OwnUnits
  /** Reads the guards of writes. */
  readonly guards: Pick<WriteGuards, 'read'>
  /** Waits for the write that runs and closes the store. */
  close(): Promise<void>
}

/**
 * Applies the stored configuration and starts following it; the process's own units are applied by `applyOwn`. Closes the
 * store on failure. `sources`: live entries of this process. Fails with a `StoreError` or a CodedError of the sealer.
 */
export async function openControl(
  options: ControlOptions,
  sources: LiveSources = noLiveSources
): Promise<ControlPlane> {
  const { store, clock, log, holder, latest, operatorKeys } = options
  try {
    const principals = await Principals.open({ store, clock, operatorKeys })
    const parts = buildParts(options, sources, principals)
    const { writer, applied, reports, guards } = parts
    await writer.alone(() => applied.load(store))
    const follower = new Follower({ latest, store, writer, applied, reports, log })
    reports.soon()
    const configuration = new Configuration({
      latest,
      holder,
      workers: options.workers,
      itself: options.itself,
      ...parts
    })
    const own = new OwnUnits(({ units, ...about }) => configuration.applyOwn(units, about))
    const callers = forCallers(options, sources, parts)
    guards.start(async (revision, why, call) => (await callers.reverts.revert(revision, {}, call, why)).by)
    const access = new Access({ store, principals, clock, holder, log })
    return {
      ...callers,
      own,
      guards,
      access,
      sessions: new Sessions({
        seal: options.seal,
        access,
        ended: options.endedSessions,
        clock,
        lifetimes: options.sessionLifetimes ?? SESSION_LIFETIMES,
        resources: options.resources
      }),
      configuration,
      serviceAccount: parts,
      close: () => close(follower, parts)
    }
  } catch (error) {
    await atMost(CLOSING, store.close())
    throw error
  }
}

async function close(follower: Follower, { guards, reports, agents, writer, store }: ControlParts): Promise<void> {
  await guards.stop()
  await follower.stop()
  await reports.stop()
  await agents.stop()
  await reports.leave()
  await writer.alone(() => store.close())
}

/** Creates the services of the API from the parts. */
function forCallers(
  options: ControlOptions,
  sources: LiveSources,
  parts: ControlParts
): Pick<ControlPlane, 'records' | 'reads' | 'revisions' | 'reverts' | 'policies' | 'traffic'> {
  const { clock } = options
  const { store, catalogue, answers, live, agents } = parts
  const baseUrl = () => answers.baseUrl
  const endpoints = new Endpoints({ store, sources, agents, units: () => live.units, baseUrl, startedAt: clock.wall() })
  const visitors = new Visitors({
    store,
    declared: parts.declared,
    ended: options.endedSessions,
    clock,
    baseUrl,
    placeOfAddress: options.placeOfAddress ?? (() => undefined)
  })
  const reads = new Reads(parts, new LiveRecords({ store, answers, agents, endpoints, visitors }), clock)
  const operations = { ...parts, reads, clock }
  return {
    records: new RecordOperations(operations),
    reads,
    revisions: new Revisions({ store, catalogue, baseUrl }),
    reverts: new Reverts({ ...parts, clock, baseUrl }),
    traffic: new Traffic(options.trafficNumbers),
    policies: new Policies(options.policyLanguage)
  }
}
