import { codeOf } from './errors.js'

/** Explanation of a system, connection or SQLite error for operators. */
interface SystemMeaning {
  /** The error, without its subject. */
  readonly text: string
  /** Advice for the operator. */
  readonly help: string
}

const PATH = 'correct the path'
const NOT_PERMITTED = {
  text: 'this user may not read or write it',
  help: 'give the file and its folder to the user of the process (chown), or run it as their owner'
}
const NO_ROOM = {
  text: 'the disk is full',
  help: 'free space there, or choose another folder; what is there stays as it is'
}
const READ_ONLY = { text: 'the file system is read-only', help: 'mount it for writing, or choose another folder' }
const DISK_FAILS = {
  text: 'the disk fails',
  help: 'look at the log of the system (dmesg); move the data to another disk'
}
const DAMAGED = {
  text: 'the file is damaged, or no SQLite database',
  help: 'keep a copy of it, then put a backup in its place with "sluice restore --overwrite FILE"'
}
const NO_NAME = { text: 'the name has no address', help: 'correct the name, or look at the DNS of this machine' }
const SLOW = { text: 'nothing answered in time', help: 'look at the address and at the firewall between' }
const UNTRUSTED = {
  text: 'its certificate is signed by an authority that this machine does not trust',
  help: 'name the file of that authority in NODE_EXTRA_CA_CERTS'
}

const MEANINGS: Readonly<Record<string, SystemMeaning>> = {
  ENOENT: { text: 'there is no such file', help: PATH },
  ENOTDIR: { text: 'a part of the path is a file and no folder', help: PATH },
  EISDIR: { text: 'it is a folder', help: 'name a file' },
  EEXIST: { text: 'it is there already', help: 'choose another name, or move it away' },
  EACCES: NOT_PERMITTED,
  EPERM: NOT_PERMITTED,
  EROFS: READ_ONLY,
  ENOSPC: NO_ROOM,
  EDQUOT: { text: 'the quota of this user is used up', help: 'free space there, or raise the quota' },
  EFBIG: { text: 'the file would be too large', help: 'raise the limit of file sizes (ulimit -f)' },
  EIO: DISK_FAILS,
  ELOOP: { text: 'links of the path lead to each other', help: PATH },
  ENAMETOOLONG: { text: 'the path is too long', help: PATH },
  EMFILE: {
    text: 'the process has too many files and connections open',
    help: 'raise its limit (ulimit -n, LimitNOFILE= of a systemd unit)'
  },
  ENFILE: { text: 'the system has too many files open', help: 'raise fs.file-max' },
  ECONNREFUSED: { text: 'nothing listens there', help: 'start what should, or correct the address' },
  ECONNRESET: {
    text: 'the connection was cut',
    help: 'look whether that address speaks this protocol, and into its log'
  },
  EHOSTUNREACH: { text: 'no route leads there', help: 'correct the address, or look at the network of this machine' },
  ENETUNREACH: { text: 'no route leads there', help: 'correct the address, or look at the network of this machine' },
  ETIMEDOUT: SLOW,
  UND_ERR_CONNECT_TIMEOUT: SLOW,
  TimeoutError: SLOW,
  ENOTFOUND: NO_NAME,
  EAI_AGAIN: NO_NAME,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: { text: 'its certificate is for another name', help: 'use a name of its certificate' },
  CERT_HAS_EXPIRED: { text: 'its certificate has expired', help: 'renew it there; look at the clock of this machine' },
  SQLITE_NOTADB: DAMAGED,
  SQLITE_CORRUPT: DAMAGED,
  SQLITE_FULL: NO_ROOM,
  SQLITE_READONLY: NOT_PERMITTED,
  SQLITE_IOERR: DISK_FAILS,
  SQLITE_CANTOPEN: {
    text: 'the file cannot be opened',
    help: 'look whether its folder is there, and whether the user of the process may write in it'
  },
  SQLITE_BUSY: { text: 'another program holds the file', help: 'end that program, or wait until it is done' }
}

/**
 * Explains an error code of the system (`ENOENT`), of a TLS connection or of SQLite (`SQLITE_FULL`, with or without the extension of its
 * code): `there is no such file (ENOENT); correct the path`. Returns undefined for unknown codes.
 */
export function systemReason(code: string): string | undefined {
  const meaning = MEANINGS[code] ?? MEANINGS[/^SQLITE_[A-Z]+/.exec(code)?.[0] ?? '']
  return meaning === undefined ? undefined : `${meaning.text} (${code}); ${meaning.help}`
}

/** Upper bound of ports that only privileged processes open by default (ip(7), ip_unprivileged_port_start). */
const PRIVILEGED_PORTS = 1024

/** Returns how this user can open a port that the system has denied with EACCES, or undefined if the port is not the reason. */
export function portPermission(port: number): string | undefined {
  if (port === 0 || port >= PRIVILEGED_PORTS) return undefined
  return `ports below ${PRIVILEGED_PORTS} need a right: start by the systemd unit of docs/install.md, which has it, or run sudo setcap cap_net_bind_service=+ep "${process.execPath}", or sudo sysctl net.ipv4.ip_unprivileged_port_start=${port}`
}

/** Returns why a file cannot be used, from the system's error or code. Rethrows an error without a code. */
export function fileReason(error: unknown): string {
  const code = typeof error === 'string' ? error : codeOf(error)
  if (code === undefined) throw error
  return systemReason(code) ?? `it cannot be used (${code})`
}
