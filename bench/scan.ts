import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { makeAuthority, makeServerCertificate } from '../src/lib/self-signed.js'
import { findProgram, freePort } from './process.js'
import { type Product, startProduct } from './product-traffic.js'
import { scanHttp2 } from './scan/h2spec.js'
import { attacks, slowHttp } from './scan/slow-http.js'
import { scanTls } from './scan/tls.js'

/**
 * Attacks the built product with the tools of others, on both engines: testssl.sh against a TLS listener, slowhttptest
 * in its three modes against HTTP and HTTPS while an honest client goes on asking, and h2spec against HTTP/2 in clear text and over TLS.
 * Needs `testssl` and `slowhttptest` in the PATH (Debian: testssl.sh, slowhttptest), and `h2spec` there or where SLUICE_H2SPEC says
 * (no package; `go install github.com/summerwind/h2spec/cmd/h2spec@v2.6.0`); what is missing is said and left out. Exit code 1: a
 * finding above LOW, a slow connection that stays, an honest client that was not served, or a case of h2spec that did not pass.
 *
 * `npm run scan [-- tls|slow|h2spec]`; takes about six minutes.
 */
const HOST = 'shop.example.com'
const DAY = 86_400_000
const only = process.argv[2]

const folder = mkdtempSync(join(tmpdir(), 'sluice-scan-'))
const validity = { now: Date.now(), life: 90 * DAY }
const authority = await makeAuthority('CN=Scan CA', validity)
const leaf = await makeServerCertificate(`CN=${HOST}`, [HOST, 'localhost'], validity, {
  subject: 'CN=Scan CA',
  key: authority.key
})
const ca = join(folder, 'ca.pem')
writeFileSync(ca, authority.cert)

const origin = new Worker(new URL('./scan/origin.js', import.meta.url))
const [upstream] = (await once(origin, 'message')) as [number]

let failures = 0
for (const engine of ['codec', 'http-proxy']) {
  const tls = await freePort()
  const product = await start(engine, tls)
  if (wanted('tls')) {
    if (findProgram('testssl') === undefined) console.log('testssl is not installed: TLS is not scanned')
    else failures += await scanTls({ engine, host: HOST, port: tls, ca, folder })
  }
  if (wanted('h2spec')) {
    const program = process.env.SLUICE_H2SPEC ?? findProgram('h2spec')
    if (program === undefined) console.log('h2spec is not installed: the conformance of HTTP/2 is not scanned')
    else {
      failures += await scanHttp2({ engine, program, port: product.port, secure: false })
      failures += await scanHttp2({ engine, program, port: tls, secure: true })
    }
  }
  if (wanted('slow')) {
    if (findProgram('slowhttptest') === undefined) console.log('slowhttptest is not installed: no slow clients')
    else {
      const pid = product.child.pid as number
      for (const attack of attacks) {
        failures += await slowHttp(attack, { engine, host: HOST, port: product.port, secure: false, pid, folder })
        failures += await slowHttp(attack, { engine, host: HOST, port: tls, secure: true, pid, folder })
      }
    }
  }
  await product.stop()
}
await origin.terminate()
console.log(failures === 0 ? 'nothing found' : `${failures} found`)
process.exit(failures === 0 ? 0 : 1)

/** Is this scan to be made? Without an argument each is. */
function wanted(scan: string): boolean {
  return only === undefined || only === scan
}

/** The time-outs of clients are short, so that it is soon seen whether they hold. */
async function start(engine: string, tls: number): Promise<Product> {
  const address = `127.0.0.1:${upstream}`
  const product = await startProduct({
    ENGINE: engine,
    // Slow clients name no host of an edge.
    UPSTREAM: `http://${address}`,
    LISTENERS: `https://127.0.0.1:${tls}`,
    TIMEOUTS_HEADERS: '3s',
    TIMEOUTS_REQUEST_BODY: '3s',
    LIMITS_CONNECTIONS: '20000'
  })
  await product.api('/tls_certificates', { certificate_pem: leaf.cert, private_key_pem: leaf.key })
  const backend = await product.api('/backends/static', { address })
  const edge = await product.api('/edges/https', { hostports: [`${HOST}:443`, 'localhost:443'] })
  const route = { match_type: 'path_prefix', match: '/', backend: { enabled: true, backend_id: backend.id } }
  await product.api(`/edges/https/${edge.id}/routes`, route)
  return product
}
