import type { PolicyTesting } from '../../../control/policy-tests.js'
import type { Clock } from '../../../lib/clock.js'
import type { Slices, Steps } from '../../../lib/slices.js'
import { judgePaths, type Problem } from '../../../policy/problems.js'
import type { HostPort } from '../../../runtime/plan.js'
import type { FileCheck } from '../../../schema/field.js'
import type { SiteMemory } from './site-memory.js'

/** Everything that is wrong, or doubtful, with a policy document in the layer where it will run; in steps. */
export type PolicyProblems = (text: string, layer: 'http' | 'tcp') => Steps<readonly Problem[]>

/** For readers that do not check policies. */
export const uncheckedPolicies: PolicyProblems = function* () {
  yield
  return []
}

/** A listener, or an error message. */
type ReadListener = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

/** Dependencies of reading a site file. */
export interface SiteFileInput {
  /** The file as messages name it. */
  readonly source: string
  /** Relative paths in it start here. */
  readonly folder: string
  readonly text: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Text of a file by its absolute path, or by its name as the file has it; rejects with the system's error. */
  readonly readFile: (path: string, name: string) => Promise<string>
  /** Names of the files in a folder, by its absolute path, or by its name as the file has it; rejects with the system's error. */
  readonly listFolder: (path: string, name: string) => Promise<readonly string[]>
  /** Rejects folders that may not be served. @default all folders are allowed, because the file is the operator's */
  readonly checkFolder?: FileCheck | undefined
  readonly policyProblems: PolicyProblems
  /** Runs the tests of policies. @default tests are only parsed */
  readonly testPolicy?: PolicyTesting
  /** Reads a listener as the option `listeners` has them. */
  readonly readListener: (written: unknown) => ReadListener
  /** Addresses that the options open already, such as `127.0.0.1:8080`, with the names of the options. */
  readonly opened: ReadonlyMap<string, string>
  /** Listening address if the file has no listeners. */
  readonly usual?: HostPort | undefined
  readonly clock: Clock
  /**
   * Key of this process: equal secrets have equal versions under it, and a version does not reveal its secret. See
   * `newVersionKey`.
   */
  readonly versionKey: Uint8Array
  /** Zone of the names that the service makes. */
  readonly zone: string
  /** Is an expired certificate an error? Otherwise it is served with a warning, as at start. */
  readonly refuseExpired: boolean
  /**
   * Facts about the process: terms of the authority accepted, TLS listener present, lenient form of paths in use. Undefined if the options are
   * unknown; then all are false.
   */
  readonly process?: {
    readonly agreed: boolean
    readonly tls: boolean
    readonly lenientPaths?: boolean
    /** Ports that clients know its listeners by. */
    readonly ports?: readonly number[]
  }
  /** Places under `sites` and `tcp` that have a policy now: none of them may lose it without saying `policy: none`. */
  readonly policed: ReadonlySet<string>
  /** Time slices of the whole reading. @default yields to the event loop, without extra time for traffic */
  readonly slices?: Slices
  /** Sites of the reading before, which are read again only where they changed; default: none. */
  readonly memory?: SiteMemory
}

/** Traffic that a policy runs on: requests, possibly with strict paths only, or connections. */
export interface PolicyCarrier {
  readonly layer: 'http' | 'tcp'
  readonly isStrict: boolean
}

/** Yields to find the problems of a policy on its carrier. */
export function* problemsOn(
  { layer, isStrict }: PolicyCarrier,
  text: string,
  { policyProblems }: Pick<SiteFileInput, 'policyProblems'>
): Steps<readonly Problem[]> {
  return judgePaths(yield* policyProblems(text, layer), isStrict)
}
