import type { DeclaredRecord } from '../../../control/declared-records.js'
import type { Span } from '../../../lib/positions.js'
import type { NodePath, Problem, UnitProblems } from '../../../policy/problems.js'
import type { FileLine } from './site-text.js'

/** Position in the file. */
export interface At {
  readonly path: NodePath
  readonly span: Span
}

/** A record as the file asks for it. */
export interface Wanted {
  readonly label: string
  /** Name that is unique among the records of its kind; the id is derived from it. */
  readonly name: readonly string[]
  /** Body of an API request. */
  readonly body: Readonly<Record<string, unknown>>
  /** Parameters of the path: ids of parents. */
  readonly parents?: Readonly<Record<string, string>>
  readonly at: At
  /** The place of a field of the request, as problems name it. */
  readonly locate: (field: string) => At
  /** A message in the words of the file. */
  readonly word?: (message: string) => string
}

/** A policy, or the tests of one, named by or within the site file, with the line of its first use or its text. */
export interface NamedPolicy extends FileLine {
  /** The name of its file, or its path in the site file. */
  readonly name: string
  readonly text: string
}

/** A server of a backend. */
export interface DeclaredServer {
  /** `host:port`. */
  readonly address: string
  /** The warning for a server that is a listener of the process, without its message. */
  readonly loop: Problem
}

/** Source of a site's certificate. `listed`: a certificate of the file that covers it, otherwise a managed one. */
export type CertificateChoice = 'listed' | 'managed' | 'none'

/** A host of a site that may need a certificate. */
export interface CertificateHost {
  readonly host: string
  readonly port: number
  readonly choice: CertificateChoice
  readonly at: At
}

/** A file that was read, by its name as the site file has it. */
export interface ReadText {
  readonly name: string
  readonly text: string
}

/** Result of one entry of a site file, reusable while all its dependencies are unchanged. */
export interface DeclaredPart {
  readonly records: readonly DeclaredRecord[]
  readonly servers: readonly DeclaredServer[]
  readonly files: ReadonlySet<string>
  readonly policyLines: ReadonlyMap<string, number>
  readonly policyNames: ReadonlyMap<string, string>
  readonly policies: ReadonlyMap<string, NamedPolicy>
  readonly policed: ReadonlySet<string>
  readonly unpoliced: readonly string[]
  readonly texts: readonly ReadText[]
  readonly volatile: boolean
  readonly problems: readonly Problem[]
  readonly documents: ReadonlyMap<string, UnitProblems>
  readonly failed: boolean
}

/** The same some lines further down. */
export function movedPart(part: DeclaredPart, lines: number): DeclaredPart {
  const moved = <T extends { readonly line: number }>(one: T): T => ({ ...one, line: one.line + lines })
  return {
    ...part,
    records: part.records.map(moved),
    servers: part.servers.map((server) => ({ ...server, loop: moved(server.loop) })),
    policyLines: new Map([...part.policyLines].map(([owner, line]) => [owner, line + lines])),
    policies: new Map([...part.policies].map(([name, policy]) => [name, moved(policy)])),
    problems: part.problems.map(moved)
  }
}
