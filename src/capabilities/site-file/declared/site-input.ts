import type { PolicyTesting } from '../../../control/policy-tests.js'
import type { Clock } from '../../../lib/clock.js'
import type { Slices, Steps } from '../../../lib/slices.js'
import { judgePaths, type Problem } from '../../../policy/problems.js'
import type { HostPort } from '../../../runtime/plan.js'
import type { FileCheck } from '../../../schema/field.js'
import type { SiteMemory } from './site-memory.js'

/** Everything that is wrong, or doubtful, with a policy document in the layer where it will run; in steps. */
export type PolicyProblems = (text: string, layer: 'http' | 'tcp') => Steps<readonly Problem[]>

/** For a reader that looks at everything else alone. */
export const uncheckedPolicies: PolicyProblems = function* () {
  yield
  return []
}

/** A listener, or what would be one. */
type ReadListener = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly refused: string }

/** What reading a site file needs from outside. */
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
  /** Refuses folders that may not be served; absent: the file is the operator's, who may serve any. */
  readonly checkFolder?: FileCheck | undefined
  readonly policyProblems: PolicyProblems
  /** Runs the tests that stand beside policies; absent: they are only read. */
  readonly testPolicy?: PolicyTesting
  /** Reads a listener as the option `listeners` has them. */
  readonly readListener: (written: unknown) => ReadListener
  /** Addresses that the options open already, such as `127.0.0.1:8080`, with the names of the options. */
  readonly opened: ReadonlyMap<string, string>
  /** Where the process listens unless the file names listeners. */
  readonly usual?: HostPort | undefined
  readonly clock: Clock
  /**
   * Of this process: equal secrets have equal versions under it, and a version tells nothing of its secret. See
   * `newVersionKey`.
   */
  readonly versionKey: Uint8Array
  /** Zone of the names that the service makes. */
  readonly zone: string
  /** Is a certificate that has expired an error? Where it is none, a start serves it and warns. */
  readonly refuseExpired: boolean
  /** Of the options: are the terms of an authority agreed to, is there a listener with TLS, and one with the lenient form of paths? Absent: none of them, and the options are not known. */
  readonly process?: {
    readonly agreed: boolean
    readonly tls: boolean
    readonly lenientPaths?: boolean
    /** Ports that clients know its listeners by. */
    readonly ports?: readonly number[]
  }
  /** Places under `sites` and `tcp` that have a policy now: none of them may lose it without saying `policy: none`. */
  readonly policed: ReadonlySet<string>
  /** Slices of the whole reading; default: the loop gets its turns, and traffic no more room than that. */
  readonly slices?: Slices
  /** Sites of the reading before, which are read again only where they changed; default: none. */
  readonly memory?: SiteMemory
}

/** What a policy runs on: requests, whose paths may be in the strict form alone, or connections. */
export interface PolicyCarrier {
  readonly layer: 'http' | 'tcp'
  readonly isStrict: boolean
}

/** What is wrong with a policy on its carrier. */
export function* problemsOn(
  { layer, isStrict }: PolicyCarrier,
  text: string,
  { policyProblems }: Pick<SiteFileInput, 'policyProblems'>
): Steps<readonly Problem[]> {
  return judgePaths(yield* policyProblems(text, layer), isStrict)
}
