import type { ApiServer } from '../api/server.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { Sealer } from '../lib/seal.js'
import type { Options } from '../options/options.js'
import type { DevelopmentIdentity } from '../proxy/server-identity.js'
import type { OwnTicketKeys } from '../proxy/ticket-keys.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation, Host } from './foundation.js'
import type { CountersOfLimits, KeepingCounters } from './kept-counters.js'
import type { OpenedParts } from './opened-parts.js'
import type { OpenPolicyServices } from './server-services.js'
import type { StartingStore } from './store-copy.js'

/** The data plane of a process. */
export interface OpenTraffic extends DataPlane {
  readonly ticketKeys: OwnTicketKeys
  /** Self-signed identity for names without a certificate. */
  readonly development: DevelopmentIdentity
  readonly keys: { readonly sticky: readonly Uint8Array[]; readonly login: readonly Uint8Array[] }
}

/** Open at `founded`: the foundation. */
interface Founded {
  readonly options: Options
  readonly host: Host
  readonly foundation: Foundation
  readonly opened: OpenedParts
}

/** Open at `sealed`: also the key that seals secrets. */
export interface Sealed extends Founded {
  readonly seal: Sealer
}

/** Open at `carrying`: also the data plane, without open ports. */
interface Carrying extends Sealed {
  readonly dataPlane: OpenTraffic
}

/** Open at `ruled`: also the services of policies. */
export interface Ruled extends Carrying {
  readonly policies: OpenPolicyServices
}

/** Open from `controlled` on: also the control plane; the records of the store are applied. */
export interface Controlled extends Ruled {
  readonly control: ControlPlane
  readonly store: StartingStore
  /** Follows the changes of another process after the store was taken back. */
  readonly isBack: () => Promise<void>
  readonly counters: CountersOfLimits | undefined
}

/** Open from `answering` on: also the API, which listens. */
interface Answering extends Controlled {
  readonly api: ApiServer
}

/** Open at `complete`: everything. */
interface Complete extends Answering {
  /** Saves the counters of limits; undefined if they are not saved. */
  readonly keeping: KeepingCounters | undefined
}

/** Moments of a start at which capabilities open their parts, in order, with the parts that are open then. */
export interface StageContexts {
  /** Before the keys of the operator are read. */
  readonly founded: Founded
  /** Before the data plane is opened. */
  readonly sealed: Sealed
  /** Before the services of policies are opened. */
  readonly carrying: Carrying
  /** Before the store and the control plane are opened. */
  readonly ruled: Ruled
  /** Before the files of the options are applied. */
  readonly controlled: Controlled
  /** Before ports are opened. A rehearsal ends before it. */
  readonly opening: Controlled
  /** After ports are open: traffic is served. */
  readonly serving: Controlled
  /** After the API listens. */
  readonly answering: Answering
  /** After the copy of the store is kept and events are followed; agents may connect from here on. */
  readonly admitting: Answering
  /** Waits for worker threads, which serve beside the main thread. */
  readonly whole: Answering
  /** Before the process is ready. */
  readonly complete: Complete
}

/** Steps of a capability at the moments of a start. It registers with `foundation.lifecycle` what a stop closes. */
export type Stages = {
  readonly [Stage in keyof StageContexts]?: (context: StageContexts[Stage]) => unknown
}

/** Runs one stage of capabilities, one after the other. */
export async function runStage<Stage extends keyof StageContexts>(
  capabilities: readonly { readonly stages: Stages }[],
  stage: Stage,
  context: StageContexts[Stage]
): Promise<void> {
  for (const { stages } of capabilities) await stages[stage]?.(context)
}
