import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface TlsScan {
  readonly engine: string
  readonly host: string
  readonly port: number
  /** File of the authority that signed the certificate. */
  readonly ca: string
  readonly folder: string
}

interface Finding {
  readonly id: string
  readonly severity: string
  readonly finding: string
}

const HARMLESS = new Set(['OK', 'INFO', 'LOW', 'DEBUG'])
/**
 * What is said of the certificate of this scan and of this machine, and not of the server: an authority of our own answers
 * nobody about revocation and writes no log of certificates; a newer tool exists; the host has no address.
 */
const OF_THE_TEST =
  /^(cert_revocation|cert_crlDistributionPoints|certificate_transparency|old_fart|engine_problem|cert_trust|scanProblem.*DNS)/
/** A warning here says that nothing was tried: the tool's client ends with its input, often before the tickets of TLS 1.3 come. */
const NOT_TRIED = /^sessionresumption_/

/** testssl.sh with all its checks; prints what is above LOW and answers how many of these are about the server. */
export async function scanTls({ engine, host, port, ca, folder }: TlsScan): Promise<number> {
  const file = join(folder, `tls-${engine}.json`)
  const words = [
    '--quiet',
    '--color',
    '0',
    '--warnings',
    'batch',
    '--ip',
    '127.0.0.1',
    '--add-ca',
    ca,
    '--jsonfile',
    file
  ]
  const child = spawn('testssl', [...words, `${host}:${port}`], { stdio: 'ignore' })
  await once(child, 'exit')
  const findings = JSON.parse(readFileSync(file, 'utf8')) as readonly Finding[]
  const counts = new Map<string, number>()
  let found = 0
  for (const { id, severity, finding } of findings) {
    counts.set(severity, (counts.get(severity) ?? 0) + 1)
    if (HARMLESS.has(severity)) continue
    const aside = OF_THE_TEST.test(id) || (severity === 'WARN' && NOT_TRIED.test(id))
    if (!aside) found++
    console.log(`tls ${engine}: ${severity} ${id}: ${finding}${aside ? ' (of the test certificate or the tool)' : ''}`)
  }
  const summary = [...counts].map(([severity, count]) => `${count} ${severity}`).join(', ')
  console.log(`tls ${engine}: ${findings.length} checks: ${summary}; above LOW: ${found}`)
  // A scan that did not come to its end says little.
  if (findings.length > 100) return found
  console.log(`tls ${engine}: the scan broke off`)
  return found + 1
}
