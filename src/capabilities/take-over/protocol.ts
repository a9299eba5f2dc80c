import { closeSync, openSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { FromHolder } from '../workers/sockets/handed-tunnels.js'
import type { FromServing } from '../workers/sockets/protocol.js'
import type { Admissions } from './handed.js'
import type { Rehearsed } from './rehearsal.js'
import type { HandedState, LIMIT_FORMS } from './succession.js'

/** Longest path of a unix socket that every system takes. Bytes. */
const LONGEST_PATH = 103

/** Returns the path of the take-over socket, usable until it is closed. Throws the system's error. */
export function takeOverPlace(folder: string): { readonly path: string; close(): void } {
  const path = join(folder, 'take-over.sock')
  if (Buffer.byteLength(path) <= LONGEST_PATH) return { path, close: () => undefined }
  // A short path of the folder, by its descriptor.
  const fd = openSync(folder, 'r')
  return { path: `/proc/self/fd/${fd}/take-over.sock`, close: () => closeSync(fd) }
}

/** Variable with the `Inheritance` of a successor as JSON. */
export const INHERITANCE = 'SLUICE_SUCCESSOR'

/** Resources that a successor inherits. */
export interface Inheritance {
  /** Listening sockets: descriptor and place. */
  readonly sockets: readonly (readonly [fd: number, host: string, port: number])[]
  /** Descriptor of the connection to the requesting command; undefined if there is none. */
  readonly asker?: number
}

/** Request of `sluice start --take-over`: its command line, environment and folder. */
export interface TakeOverRequest {
  readonly pid: number
  readonly program: string
  readonly words: readonly string[]
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
}

/** Messages to the command. */
export type ToAsker =
  | { readonly kind: 'step'; readonly text: string }
  /** A line for its standard error, printed unchanged. */
  | { readonly kind: 'line'; readonly text: string }
  /** The successor runs in this process. */
  | { readonly kind: 'begun'; readonly pid: number }
  /** The successor serves. */
  | { readonly kind: 'serves' }
  /** The take-over failed; `text` gives the reason and the consequence. */
  | { readonly kind: 'failed'; readonly text: string }
  /** The successor ends with this code. */
  | { readonly kind: 'ends'; readonly code: number }

/** Messages of a successor to its predecessor, in this order. */
export type FromSuccessor =
  /** Options, files, ports and the stored configuration are valid. */
  | ({ readonly kind: 'prepared' } & Rehearsed)
  | { readonly kind: 'opens' }
  | { readonly kind: 'serves' }
  /** To the tunnels of agents that are connected to the predecessor; comes again and again. */
  | { readonly kind: 'to-tunnels'; readonly message: FromServing }

/** Messages of a predecessor to its successor, in this order. */
export type ToSuccessor =
  /** The store, the ports of the API and of agents are free. Base64, milliseconds. */
  | ({ readonly kind: 'released' } & Pick<HandedState, 'clockOrigin' | 'limiterSecret' | 'ticketKeys' | 'endpoints'>)
  /** The file with the counters of limits and its format; `written` is undefined if they could not be saved. */
  | { readonly kind: 'limits'; readonly written?: { readonly path: string; readonly form: keyof typeof LIMIT_FORMS } }
  /** Requests admitted since the counters were saved; sent repeatedly until the predecessor exits. */
  | { readonly kind: 'admitted'; readonly admissions: Admissions }
  /** Messages from the tunnels of agents that are connected to the predecessor; sent repeatedly. */
  | { readonly kind: 'from-tunnels'; readonly message: FromHolder }
  /** A connection to the API that was accepted and not read: it comes with the message. */
  | { readonly kind: 'connection' }
  /** The socket in the data folder is free. */
  | { readonly kind: 'left' }

/** Reads values of JSON, one in each line, until the peer ends. Ends the connection at a line of more than `most` bytes or that is none. */
export function readLines<T>(socket: Socket, most: number, take: (value: T) => void): void {
  let text = ''
  socket.setEncoding('utf8')
  socket.on('data', (chunk: string) => {
    text += chunk
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n')) {
      const line = text.slice(0, end)
      text = text.slice(end + 1)
      try {
        take(JSON.parse(line) as T)
      } catch {
        socket.destroy()
        return
      }
    }
    if (text.length > most) socket.destroy()
  })
}

/** Writes a value as a line. */
export function writeLine(socket: Socket, value: ToAsker | TakeOverRequest): void {
  if (!socket.destroyed) socket.write(`${JSON.stringify(value)}\n`)
}
