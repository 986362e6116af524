/** A certificate for 127.0.0.1, and its key. */

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** @returns {{ cert: Buffer, key: Buffer }}  PEM. */
export function createIdentity() {
  const directory = mkdtempSync(join(tmpdir(), 'sandglass-tls-'))
  const [cert, key] = [join(directory, 'cert.pem'), join(directory, 'key.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1']
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const args = ['req', '-x509', ...curve, '-keyout', key, '-out', cert, '-days', '2', ...subject]
  execFileSync('openssl', args, { stdio: 'ignore' })
  const identity = { cert: readFileSync(cert), key: readFileSync(key) }
  rmSync(directory, { recursive: true })
  return identity
}
