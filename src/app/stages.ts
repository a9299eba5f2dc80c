import type { ApiServer } from '../api/server.js'
import type { ControlPlane } from '../control/control-plane.js'
import type { Sealer } from '../lib/seal.js'
import type { Options } from '../options/options.js'
import type { OwnTicketKeys } from '../proxy/ticket-keys.js'
import type { DevelopmentIdentity } from '../proxy/tls.js'
import type { DataPlane } from './data-plane.js'
import type { Foundation, Host } from './foundation.js'
import type { CountersOfLimits, KeepingCounters } from './kept-counters.js'
import type { OpenedParts } from './opened-parts.js'
import type { OpenPolicyServices } from './server-services.js'
import type { StartingStore } from './store-copy.js'

/** The data plane of a process. */
export interface OpenTraffic extends DataPlane {
  readonly ticketKeys: OwnTicketKeys
  /** Shown for names without a certificate. */
  readonly development: DevelopmentIdentity
  readonly keys: { readonly sticky: readonly Uint8Array[]; readonly login: readonly Uint8Array[] }
}

/** The foundation is there, and nothing else. */
interface Founded {
  readonly options: Options
  readonly host: Host
  readonly foundation: Foundation
  readonly opened: OpenedParts
}

/** The key that seals secrets is known. */
export interface Sealed extends Founded {
  readonly seal: Sealer
}

/** The data plane is there, without open ports. */
interface Carrying extends Sealed {
  readonly dataPlane: OpenTraffic
}

/** The services of policies are there. */
export interface Ruled extends Carrying {
  readonly policies: OpenPolicyServices
}

/** The store is open, and what it holds is applied. */
export interface Controlled extends Ruled {
  readonly control: ControlPlane
  readonly store: StartingStore
  /** Follows the changes of another process after the store was taken back. */
  readonly isBack: () => Promise<void>
  readonly counters: CountersOfLimits | undefined
}

/** The API listens. */
interface Answering extends Controlled {
  readonly api: ApiServer
}

/** Everything is open. */
interface Complete extends Answering {
  /** Saves the counters of limits; undefined if they are not saved. */
  readonly keeping: KeepingCounters | undefined
}

/** Moments of a start at which capabilities open what is theirs, in their order, with what is open then. */
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
  /** Traffic is served. */
  readonly serving: Controlled
  /** The API listens. */
  readonly answering: Answering
  /** Events and the copy of the store are followed. */
  readonly admitting: Answering
  /** Waits for what serves beside the kernel. */
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
