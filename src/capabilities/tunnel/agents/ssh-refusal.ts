import { text, uint32 } from '../../../resources/ssh-key.js'

/** Bytes that begin the identification string of an SSH client (RFC 4253 section 4.2). */
const IDENTIFICATION = Buffer.from('SSH-')
/** Our identification string, without which clients read no message. */
const OURS = Buffer.from('SSH-2.0-Sluice\r\n')
/** Number of the message SSH_MSG_DISCONNECT (RFC 4253 section 12). */
const DISCONNECT = 1
/** Reason SSH_DISCONNECT_SERVICE_NOT_AVAILABLE (RFC 4253 section 11.1). */
const NOT_AVAILABLE = 7
/** Block size of packets without encryption (bytes, RFC 4253 section 6). */
const BLOCK = 8
/** Minimum padding of a packet (bytes). */
const LEAST_PADDING = 4

/** Text that SSH clients show; OpenSSH shows 400 bytes of it. */
const MESSAGE =
  'Sluice does not serve ssh -R. Run its agent instead, with the token of a credential in SLUICE_TOKEN: ' +
  'sluice agent --server HOST:PORT --ca ca.pem --https NAME --forward http://127.0.0.1:3000 (docs/agents.md)'

const REFUSAL = Buffer.concat([OURS, packet(disconnect(MESSAGE))])

/**
 * Returns the answer to a client of `ssh -R`: an identification string and SSH_MSG_DISCONNECT, which may come before the key exchange
 * and which clients show to their users. `more`: the bytes may become those of such a client. Undefined: they are of another protocol.
 */
export function refuseSsh(first: Buffer): Buffer | 'more' | undefined {
  const known = Math.min(first.length, IDENTIFICATION.length)
  if (first.compare(IDENTIFICATION, 0, known, 0, known) !== 0) return undefined
  return known === IDENTIFICATION.length ? REFUSAL : 'more'
}

function disconnect(message: string): Buffer {
  return Buffer.concat([Buffer.from([DISCONNECT]), uint32(NOT_AVAILABLE), text(message), text('en')])
}

/** Returns the binary packet of a payload, without encryption, MAC and compression (RFC 4253 section 6). */
function packet(payload: Buffer): Buffer {
  const unpadded = 4 + 1 + payload.length
  const padding = LEAST_PADDING + ((BLOCK - ((unpadded + LEAST_PADDING) % BLOCK)) % BLOCK)
  return Buffer.concat([uint32(1 + payload.length + padding), Buffer.from([padding]), payload, Buffer.alloc(padding)])
}
