import { Command } from 'commander'

const EXAMPLES = `
Examples:
  sluice hash-password
  echo "$PASSWORD" | sluice hash-password --bcrypt

Asks for the password twice, without showing it, or reads it from standard input. The hash is for password_hash of the action
basic-auth, or for a line user:hash of a file that its field "file" names; files of "htpasswd -B" and "htpasswd -m" work too.`

/** `sluice hash-password`: the hash of a password for policies. */
export function hashPasswordCommand(): Command {
  return new Command('hash-password')
    .description('print the hash of a password, for the action basic-auth')
    .option('--bcrypt', 'bcrypt, for files that other programs read too (default: argon2id)')
    .addHelpText('after', EXAMPLES)
    .action(async ({ bcrypt }: { readonly bcrypt?: boolean }) => {
      const { printPasswordHash } = await import('./hash-password.js')
      process.exitCode = await printPasswordHash(bcrypt === true ? 'bcrypt' : 'argon2id')
    })
}
