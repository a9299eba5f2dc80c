import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { create, site, visit } from '../helpers/account.js'
import { type RunningSluice, startSluice } from '../helpers/sluice.js'
import { freePort } from './free-port.js'

const REPLACE = `on_http_request:
  - actions:
      - type: request-body-find-replace
        config: { replacements: [{ from: before, to: after }] }
`
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes'

/** A server that does this with each connection, or with each request on it. */
async function server(t: Test, connection: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const listening: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    connection(socket)
  })
  listening.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    listening.close()
  })
  return `127.0.0.1:${(listening.address() as AddressInfo).port}`
}

const answering =
  (text: string, end = false) =>
  (socket: Socket) =>
    socket.on('data', (chunk) => {
      if (!/^[A-Z]+ \//.test(chunk.toString())) return
      socket.write(text)
      if (end) socket.end()
    })

/** The first server of each row of the table, by the beginning of the row, and what its backend has beside the default. */
const ROWS: Readonly<
  Record<string, { readonly first: (t: Test) => Promise<string>; readonly fields?: object; readonly warm?: boolean }>
> = {
  'No connection: refused': { first: async () => `127.0.0.1:${await freePort()}` },
  'No connection: time-out': {
    // TLS is part of the connection: a server that says nothing is one that does not connect.
    first: (t) => server(t, () => undefined),
    fields: { tls: { enabled: true }, timeouts: { connect: 0.2 } }
  },
  'TLS failed': {
    first: (t) => server(t, (socket) => socket.end('no TLS')),
    fields: { tls: { enabled: true } }
  },
  'A reused connection was closed': {
    first: (t) =>
      server(t, (socket) => {
        let count = 0
        socket.on('data', (chunk) => {
          if (!/^[A-Z]+ \//.test(chunk.toString())) return
          if (++count === 1) socket.write(OK.replace('yes', 'one'))
          else socket.destroy()
        })
      }),
    warm: true
  },
  'A status, not named': { first: (t) => server(t, answering('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n')) },
  'A status, named': {
    first: (t) => server(t, answering('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n')),
    fields: { retries: { on: ['502-503'] } }
  },
  'No answer in time, not named': { first: (t) => server(t, () => undefined), fields: { timeouts: { response: 0.2 } } },
  'No answer in time, named': {
    first: (t) => server(t, () => undefined),
    fields: { timeouts: { response: 0.2 }, retries: { on: ['timeout'] } }
  },
  'A new connection was closed': {
    first: (t) => server(t, (socket) => socket.on('data', () => socket.destroy()))
  },
  'The answer is malformed': { first: (t) => server(t, answering('HTTP/1.1 what\r\n\r\n')) },
  'The answer broke': { first: (t) => server(t, answering('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nye', true)) }
}

interface Row {
  readonly name: string
  /** GET; POST with a body that a policy wrote; POST with a body that passes through. */
  readonly cells: readonly boolean[]
}

/** The rows of the table in docs/balancing.md. */
function rows(): Row[] {
  const text = readFileSync(new URL('../../../docs/balancing.md', import.meta.url), 'utf8')
  const [, table = ''] = text.split('| what happened | GET, HEAD, OPTIONS |')
  const found: Row[] = []
  for (const line of table.split('\n').slice(2)) {
    if (!line.startsWith('|')) break
    const [name = '', ...cells] = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim())
    found.push({ name, cells: cells.map((cell) => cell === 'again') })
  }
  return found
}

async function again(t: Test, sluice: RunningSluice, host: string, method: string, body: string, warm: boolean) {
  if (warm) t.match(await visit(sluice, host), { body: 'one' })
  try {
    return (await visit(sluice, host, { method, body })).body === 'yes'
  } catch {
    return false
  }
}

t.test('what docs/balancing.md says of retries is what happens', async (t) => {
  const table = rows()
  const http1 = table.filter(({ name }) => !name.startsWith('HTTP/2'))
  t.same(
    http1.map(({ name }) => Object.keys(ROWS).find((row) => name.startsWith(row))).sort(),
    Object.keys(ROWS).sort()
  )
  const sluice = await startSluice(t)
  for (const [number, { name, cells }] of http1.entries()) {
    const row = ROWS[Object.keys(ROWS).find((one) => name.startsWith(one)) ?? '']
    if (row === undefined) continue
    const columns: readonly [string, string, string, boolean | undefined][] = [
      ['GET', '', '', cells[0]],
      ['PUT', '', '', cells[1]],
      ['POST', 'before', REPLACE, cells[2]],
      ['POST', 'before', '', cells[3]]
    ]
    for (const [column, [method, body, policy, expected]] of columns.entries()) {
      const host = `shop-${number}-${column}.example.com`
      const first = await row.first(t)
      const second = await server(t, answering(OK))
      const one = await create(sluice, '/backends/static', { address: first, ...row.fields })
      const two = await create(sluice, '/backends/static', { address: second })
      const { id } = await create(sluice, '/backends/failover', { backends: [one.id, two.id] })
      const traffic = policy === '' ? {} : { traffic_policy: { enabled: true, value: policy } }
      await site(sluice, host, { backend: { backend_id: id }, ...traffic })
      t.equal(
        await again(t, sluice, host, method, body, row.warm === true),
        expected,
        `${name}: ${method} ${policy && 'buffered'}${body}`
      )
    }
  }
})
