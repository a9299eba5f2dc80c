import { tmpdir } from 'node:os'
import { atMost } from '../lib/at-most.js'
import type { Clock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { FirstFailure } from '../lib/first-failure.js'
import type { Json } from '../lib/json.js'
import type { Sealer } from '../lib/seal.js'
import { Slices, type Steps } from '../lib/slices.js'
import type { Resource } from '../resources/resource.js'
import { AddressGate, type GatedTraffic } from '../runtime/address-gate.js'
import type { CompileOptions } from '../runtime/compile.js'
import { noPorts, type Ports } from '../runtime/ports.js'
import type { Snapshot, SnapshotHolder } from '../runtime/snapshot.js'
import type { FileCheck, PolicyCheck } from '../schema/field.js'
import { type Place, type Store, type StoreLog, samePlace } from '../store/store.js'
import { Principals } from './access.js'
import { Answers } from './answers.js'
import { AppliedRevision } from './applied.js'
import { Live } from './apply.js'
import type { EventRecorder, RecordEvent } from './calls.js'
import { ClusterAgents } from './cluster/agents.js'
import { type LiveSources, noLiveSources } from './cluster/live-sources.js'
import { ProcessReports } from './cluster/membership.js'
import { DeclaredRecords } from './declared/declared-records.js'
import { Edits } from './edits.js'
import { Catalogue, Records } from './records.js'
import { Backups } from './transfer/backups.js'
import { Writer } from './writer.js'

/** A revision is applied within a second; one that is not after so long is late. Milliseconds. */
const LATE_AFTER = 2_000

interface Heard {
  readonly revision: number
  /** Monotonic milliseconds. */
  readonly at: number
}

/** How far a process is behind its store. */
export class Lag {
  readonly #clock: Clock
  #oldest: Heard | undefined
  #latest: Heard = { revision: 0, at: 0 }

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The last revision of the store is this one. */
  hear(revision: number): void {
    this.#latest = { revision, at: this.#clock.monotonic() }
    if (this.#oldest === undefined || this.#oldest.revision > revision) this.#oldest = this.#latest
  }

  /** By how many revisions `applied` is behind; 0 while none of them is late. */
  behind(applied: number): number {
    if (this.#oldest !== undefined && this.#oldest.revision <= applied) {
      this.#oldest = this.#latest.revision > applied ? this.#latest : undefined
    }
    const late = this.#oldest !== undefined && this.#clock.monotonic() - this.#oldest.at > LATE_AFTER
    return late ? this.#latest.revision - applied : 0
  }
}

/** Milliseconds before what failed is tried again. */
const RETRY = 500

interface FollowingParts {
  readonly store: Store
  readonly writer: Writer
  readonly applied: AppliedRevision
  readonly reports: ProcessReports
  readonly log: StoreLog
}

/** Brings what other processes write to life. */
class Following {
  #parts: FollowingParts | undefined
  /** What was heard of and not looked at yet. */
  #heard: Place | undefined
  #running: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  readonly #lag: Lag
  readonly #failing = new FirstFailure()

  constructor(clock: Clock) {
    this.#lag = new Lag(clock)
  }

  /** By how many revisions this process is late. */
  get behind(): number {
    return this.#parts === undefined ? 0 : this.#lag.behind(this.#parts.applied.revision)
  }

  /** The last revision of the store is this one. Before `start` it is only remembered. */
  hear(place: Place): void {
    this.#heard = place
    this.#lag.hear(place.revision)
    this.#run()
  }

  start(parts: FollowingParts): void {
    this.#parts = parts
    this.#run()
  }

  async stop(): Promise<void> {
    this.#parts = undefined
    clearTimeout(this.#retry)
    await this.#running
  }

  #run(): void {
    const parts = this.#parts
    const heard = this.#heard
    if (parts === undefined || heard === undefined || this.#running !== undefined || this.#retry !== undefined) return
    this.#heard = undefined
    if (samePlace(heard, parts.applied.place)) return
    this.#running = this.#follow(parts, heard).finally(() => {
      this.#running = undefined
      // A revision that was heard of at the very end.
      this.#run()
    })
  }

  async #follow({ store, writer, applied, reports, log }: FollowingParts, wanted: Place): Promise<void> {
    try {
      await writer.alone(() => applied.follow(store))
      reports.soon()
      this.#failing.passed()
    } catch (error) {
      applied.stuck(codeOf(error) ?? 'INTERNAL')
      this.#heard ??= wanted
      this.#failing.failed(() => {
        log.warn({ err: error, revision: wanted.revision }, 'cannot follow the store; trying again')
      })
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#run()
      }, RETRY).unref()
    }
  }
}

/** How long the end of a store that failed is waited for: one that is silent ends late. Milliseconds. */
const CLOSING = 5_000

/** Sends a test event with this object to a destination; answers what came of it. */
export type TestDestination = (destination: string, object: Json) => Promise<Json>

export interface ControlOptions {
  /** Opens the store; `onRevision` is the hook of `StoreOptions`. The control plane closes it. */
  readonly connect: (onRevision: (place: Place) => void) => Promise<Store>
  /** Why the store is not the one that it should be, for people; null when it is. */
  readonly degraded?: () => string | null
  /** Every resource; in production the list of `registry.ts`. */
  readonly resources: readonly Resource[]
  readonly seal: Sealer
  readonly clock: Clock
  readonly log: StoreLog
  readonly checkPolicy: PolicyCheck
  /** Absent: destinations refuse by themselves what they may not write. */
  readonly checkFile?: FileCheck
  readonly holder: SnapshotHolder
  readonly compile: CompileOptions
  /** Opens what the configuration listens on; absent: nothing. */
  readonly ports?: Ports
  /** Called after a new snapshot has been swapped in. Must not throw. */
  readonly swapped?: (snapshot: Snapshot) => void
  /** What follows `swapped` in steps, beside traffic; the next change waits for it. Must not throw. */
  readonly settling?: (snapshot: Snapshot) => Steps<void>
  /** Keys of the operator, outside of the store: they are the administrator's. */
  readonly operatorKeys: { accepts(key: string): Promise<boolean> }
  /** Scheme, host and port of the API as clients see it, without a slash at the end; asked for each answer. */
  readonly baseUrl: () => string
  readonly zone: string
  readonly regions: readonly string[]
  /** Must the hosts of HTTPS edges be reserved domains? */
  readonly requireReserved?: boolean
  /** Keeps the events of each write in its transaction. Absent: there are none. */
  readonly events?: EventRecorder
  /** How the delivery to an event destination goes. */
  readonly deliveryOf?: (destination: string) => Json | undefined
  readonly testDestination?: TestDestination
  /** Called when dead letters of event destinations were dropped or given back. Must not reject. */
  readonly lettersDropped?: () => Promise<void>
  /** Called for each committed change of a record, after it serves. */
  readonly published?: (event: RecordEvent) => void
  /** Called for each revision once it serves here, whichever process wrote it. Must not throw. */
  readonly served?: (revision: number) => void
  /** Waits until what follows records of these kinds beside the snapshot has done so; a write is answered after it. Must not reject. */
  readonly settled?: (kinds: ReadonlySet<string>) => Promise<void>
  /** Where the copy of a backup lies until it is sent; absent: the system's folder for such files. */
  readonly backupFolder?: string | undefined
  /** For one piece of long work beside traffic; absent: of the system's clock. */
  readonly slices?: () => Slices
  /** Milliseconds between reports to the other processes on the store; absent: there are none. */
  readonly reportEvery?: number
}

/** The classes of traffic that the management listener carries: calls of the API, and pages for people. */
export type Entrance = Extract<GatedTraffic, 'api' | 'dashboard'>

/** What the control plane is made of. */
export interface ControlParts {
  readonly store: Store
  readonly catalogue: Catalogue
  readonly records: Records
  readonly answers: Answers
  readonly edits: Edits
  readonly live: Live
  /** Who may reach the management listener. */
  readonly gates: Readonly<Record<Entrance, AddressGate>>
  readonly holder: SnapshotHolder
  readonly principals: Principals
  readonly applied: AppliedRevision
  readonly writer: Writer
  readonly reports: ProcessReports
  /** Of all processes on the store. */
  readonly agents: ClusterAgents
  readonly following: Following
  readonly backups: Backups
  /** What a site file of this process declares. */
  readonly declared: DeclaredRecords
}

/** What services beside the API read and write with: their writes are writes like any other. */
export interface ServiceAccount extends Pick<ControlParts, 'store' | 'records' | 'writer' | 'edits'> {
  readonly applied: Pick<AppliedRevision, 'degraded'>
}

/**
 * Opens the store, applies what it holds and begins to follow it. Closes it again when that fails. `sources`: what lives
 * in this process beside the records.
 */
export async function openParts(options: ControlOptions, sources: LiveSources = noLiveSources): Promise<ControlParts> {
  const following = new Following(options.clock)
  const store = await options.connect((place) => following.hear(place))
  try {
    const parts = await build(options, sources, store, following)
    const { writer, applied, reports } = parts
    await writer.alone(() => applied.load(store))
    following.start({ store, writer, applied, reports, log: options.log })
    reports.soon()
    return parts
  } catch (error) {
    await atMost(CLOSING, store.close())
    throw error
  }
}

async function build(
  options: ControlOptions,
  sources: LiveSources,
  store: Store,
  following: Following
): Promise<ControlParts> {
  const { seal, clock, log, holder, compile, checkPolicy, zone, published, events, operatorKeys, reportEvery } = options
  const { swapped = () => undefined, served = () => undefined, ports = noPorts, degraded = () => null } = options
  const { settling = settleNothing } = options
  // The first load has no traffic beside it.
  const besideTraffic = (): Slices => (applied.revision > 0 ? Slices.besideTraffic() : new Slices())
  const { slices = besideTraffic } = options
  const catalogue = new Catalogue(options.resources)
  const records = new Records(seal)
  const declared = new DeclaredRecords()
  const principals = await Principals.open({ store, clock, operatorKeys })
  const live = new Live({ holder, compile, ports, slices, swapped, settling })
  const gates = { api: new AddressGate('api', { log }), dashboard: new AddressGate('dashboard', { log }) }
  const applied = new AppliedRevision({ records, live, principals, clock, log, slices, served, degraded })
  const reports = new ProcessReports({ store, applied, clock, log, every: reportEvery })
  const agents = new ClusterAgents({ store, reports, sources, clock, log })
  const answers = new Answers(catalogue, records, declared, {
    ...options,
    selectedBy: (groups) => agents.selectedBy(groups)
  })
  const writer = new Writer({
    store,
    applied,
    live,
    holder,
    principals,
    log,
    slices,
    draft: {
      catalogue,
      records,
      answers,
      declared,
      edgeOn: (host) => edgeOn(holder, host),
      requireReserved: options.requireReserved === true,
      eventful: async (tx, about) => published !== undefined || (await events?.wants(tx, about)) === true
    },
    recorder: events,
    committed: () => reports.soon(),
    published: (event) => tell(published, event, log),
    settled: options.settled ?? (async () => undefined)
  })
  const edits = new Edits({ catalogue, records, declared, clock, checkPolicy, checkFile: options.checkFile, zone })
  return {
    store,
    catalogue,
    records,
    answers,
    edits,
    live,
    gates,
    holder,
    principals,
    applied,
    writer,
    reports,
    agents,
    following,
    backups: new Backups(store, options.backupFolder ?? tmpdir()),
    declared
  }
}

function* settleNothing(): Steps<void> {}

/** The edge that serves exactly this host. */
function edgeOn(holder: SnapshotHolder, host: string): string | undefined {
  const edge = holder.current().edge(host)
  return edge === undefined || edge.hosts === 'every' || !edge.hosts.some((at) => at.host === host)
    ? undefined
    : edge.id
}

/** The write is committed; an error in a subscriber must not fail it. */
function tell(published: ControlOptions['published'], event: RecordEvent, log: StoreLog): void {
  try {
    published?.(event)
  } catch (error) {
    log.warn({ err: error, event: event.type, id: event.id }, 'an event was not taken')
  }
}
