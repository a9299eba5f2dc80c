import type { SecretValues, Unit } from '../../runtime/plan.js'
import type { CertificateHost, DeclaredPart } from './declared-part.js'

/** What records mean for traffic, with a digest of it for each label. */
export interface PartUnits {
  readonly units: readonly (readonly [key: string, unit: Unit])[]
  readonly secrets: SecretValues
  readonly contents: readonly (readonly [label: string, digest: string])[]
}

/** What one site came to when it was read. */
export interface RememberedSite {
  /** Its lines, and the first of them. */
  readonly text: string
  readonly name: string
  /** Number of its lines. */
  readonly lines: number
  /** Its name in the file. */
  readonly key: string
  /** Number of its first line when it was read. */
  readonly first: number
  /** Values of its tree. */
  readonly nodes: number
  readonly part: DeclaredPart
  readonly units: PartUnits
  /** Offsets count from its own text. */
  readonly hosts: readonly CertificateHost[]
  /** Backends by URL: ids of those that it uses, and which of them it has made. */
  readonly used: ReadonlyMap<string, string | undefined>
  readonly made: ReadonlySet<string>
}

/**
 * The sites of the last reading by their first lines. A site that is written alike, in a file whose other parts and whose surroundings are
 * the same, means the same.
 */
export class SiteMemory {
  #around = ''
  #sites: ReadonlyMap<string, RememberedSite> = new Map()

  /** Sites that were read with the same around them. */
  sites(around: string): ReadonlyMap<string, RememberedSite> {
    return around === this.#around ? this.#sites : new Map()
  }

  keep(around: string, sites: ReadonlyMap<string, RememberedSite>): void {
    this.#around = around
    this.#sites = sites
  }
}
