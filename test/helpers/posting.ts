import { type RawPeer, valuesOf } from './raw-client.js'

const POST = 'POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody'

/**
 * One POST after the other, with `pause` milliseconds between them, until an answer says that it is the last. `before` hears
 * before each how many were answered. Lost: one that was sent and got no answer with 200.
 */
export async function posting(
  peer: RawPeer,
  pause: number,
  before: (answered: number) => void
): Promise<{ answered: number; lost: boolean }> {
  for (let answered = 0; ; answered++) {
    before(answered)
    peer.send(POST)
    try {
      const answer = await peer.answer('POST')
      if (answer.status !== 200) return { answered, lost: true }
      if (valuesOf(answer, 'connection').includes('close')) return { answered: answered + 1, lost: false }
    } catch {
      return { answered, lost: true }
    } finally {
      if (peer.ended) peer.socket.destroy()
    }
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
}
