import { Command } from 'commander'

const EXAMPLES = `
Examples:
  sluice hash-password
  echo "$PASSWORD" | sluice hash-password --bcrypt

Asks for the password twice without showing it, or reads it from standard input. Put the hash into password_hash of the action
basic-auth, or into a line user:hash of the htpasswd file that its field "file" names. Files of "htpasswd -B" and "htpasswd -m"
work, too.`

/** `sluice hash-password`: the hash of a password for policies. */
export function hashPasswordCommand(): Command {
  return new Command('hash-password')
    .description('hash a password for the action basic-auth (htpasswd)')
    .option('--bcrypt', 'bcrypt, which other programs can read, too (default: argon2id)')
    .addHelpText('after', EXAMPLES)
    .action(async ({ bcrypt }: { readonly bcrypt?: boolean }) => {
      const { printPasswordHash } = await import('./hash-password.js')
      process.exitCode = await printPasswordHash(bcrypt === true ? 'bcrypt' : 'argon2id')
    })
}
