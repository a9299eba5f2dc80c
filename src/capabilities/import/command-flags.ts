/** Flags of `sluice import nginx`. */
export interface ImportFlags {
  readonly output?: string
  readonly overwrite?: boolean
  readonly report: string
  /** Flag of `sluice import caddy` alone. */
  readonly adapt?: boolean
  readonly prove?: boolean
  readonly old?: string
  readonly requests?: string
  readonly allMethods?: boolean
  readonly upstreams: string
  readonly recordPorts?: string
}
