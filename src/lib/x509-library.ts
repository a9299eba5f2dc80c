import { createRequire } from 'node:module'

const requireFrom = createRequire(import.meta.url)

/**
 * The library for X.509 structures. Loaded, for some fifty milliseconds, by whoever first reads or makes a certificate: most
 * commands never do. A process that carries traffic asks for it as it starts.
 */
export function x509Library(): typeof import('@peculiar/x509') {
  // It fails without this one, which stands before it in the process from then on.
  requireFrom('reflect-metadata')
  return requireFrom('@peculiar/x509') as typeof import('@peculiar/x509')
}
