import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cpuSeconds, findProgram, freePort, type Running, startProgram } from './process.js'
import { startProduct } from './product-traffic.js'

/** How many megabytes a TCP edge carries per second of CPU, beside HAProxy in TCP mode. */
const SECONDS = 4
const CONNECTIONS = 8
const BLOCK = Buffer.alloc(64 * 1024, 'x')

const sink = createServer((socket) => {
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    carried += chunk.length
  })
})
let carried = 0
sink.listen(0, '127.0.0.1')
await once(sink, 'listening')
const upstream = (sink.address() as AddressInfo).port

async function sluice(): Promise<Running & { port: number }> {
  const product = await startProduct()
  const port = await freePort()
  const backend = await product.api('/backends/static', { address: `127.0.0.1:${upstream}` })
  await product.api('/edges/tcp', {
    hostports: [`localhost:${port}`],
    backend: { enabled: true, backend_id: backend.id }
  })
  return { ...product, port }
}

async function haproxy(): Promise<Running & { port: number }> {
  const port = await freePort()
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-bench-')), 'haproxy.cfg')
  writeFileSync(
    file,
    `global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend f
  bind 127.0.0.1:${port}
  default_backend b
backend b
  server s 127.0.0.1:${upstream}
`
  )
  const program = findProgram('haproxy') as string
  return { ...(await startProgram(program, ['-f', file, '-db'], port, { cpu: 0 })), port }
}

async function measure(name: string, proxy: Running & { port: number }): Promise<void> {
  const pid = proxy.child.pid as number
  const sockets = Array.from({ length: CONNECTIONS }, () => {
    const socket = connect({ host: '127.0.0.1', port: proxy.port })
    socket.on('error', () => socket.destroy())
    const write = () => {
      while (!socket.destroyed && socket.write(BLOCK));
    }
    socket.on('connect', write)
    socket.on('drain', write)
    return socket
  })
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  const [bytes, cpu] = [carried, cpuSeconds(pid)]
  await new Promise((resolve) => setTimeout(resolve, SECONDS * 1_000))
  const [moved, used] = [(carried - bytes) / 1e6, cpuSeconds(pid) - cpu]
  for (const socket of sockets) socket.destroy()
  await proxy.stop()
  console.log(`${name}: ${(moved / used).toFixed(0)} MB per CPU second, ${(moved / SECONDS).toFixed(0)} MB/s`)
}

await measure('sluice', await sluice())
if (findProgram('haproxy') === undefined) console.log('haproxy is not installed')
else await measure('haproxy', await haproxy())
sink.close()
process.exit(0)
