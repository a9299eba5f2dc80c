import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { fixture } from '../helpers/files.js'
import { startSluice } from '../helpers/sluice.js'

const pem = (name: string) => fileURLToPath(fixture(`tls/${name}`))

const server = createServer(
  { cert: readFileSync(pem('localhost.crt')), key: readFileSync(pem('localhost.key')) },
  (request, response) => response.end(`${request.method} ${request.url} for ${request.headers.host}`)
)
server.listen(0, '0.0.0.0')
await once(server, 'listening')
const { port } = server.address() as AddressInfo
t.teardown(() => {
  server.closeAllConnections()
  server.close()
})

t.test('an https upstream whose authority is trusted is reached', async (t) => {
  const sluice = await startSluice(t, {
    upstream: { protocol: 'https', host: 'localhost', port },
    options: { UPSTREAM_CA: pem('localhost.crt') }
  })
  const answer = await fetch(`http://127.0.0.1:${sluice.port}/a?b`)
  t.equal(answer.status, 200)
  t.equal(await answer.text(), `GET /a?b for 127.0.0.1:${sluice.port}`)
})

t.test('one whose authority is unknown is refused, and nothing is sent to it', async (t) => {
  const sluice = await startSluice(t, { upstream: { protocol: 'https', host: 'localhost', port } })
  const answer = await fetch(`http://127.0.0.1:${sluice.port}/`)
  t.equal(answer.status, 502)
  t.equal(answer.headers.get('sluice-error-code'), 'UPSTREAM_CERTIFICATE_UNTRUSTED')
  const line = await sluice.line(({ msg }) => msg === 'upstream failed')
  t.match(line, { failure: 'tls-untrusted', upstream: `https://localhost:${port}` })
})

t.test('the certificate must be for the name or address that was asked for', async (t) => {
  const at = async (host: string) => {
    const sluice = await startSluice(t, {
      upstream: { protocol: 'https', host, port },
      options: { UPSTREAM_CA: pem('localhost.crt') }
    })
    const answer = await fetch(`http://127.0.0.1:${sluice.port}/`)
    return answer.headers.get('sluice-error-code') ?? answer.status
  }
  t.equal(await at('127.0.0.1'), 200)
  t.equal(await at('127.0.0.2'), 'UPSTREAM_CERTIFICATE_NAME')
})
