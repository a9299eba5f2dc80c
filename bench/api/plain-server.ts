import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server that answers at once and does nothing else. Prints its port. */
const server = createServer((_, response) => response.end('plain'))
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
