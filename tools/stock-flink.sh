#!/bin/sh
# Makes a stock Flink distribution, start scripts included, in the folder given: from the two
# packages of the Python registry that hold its parts, 330 MB in all.
set -eu
version=2.3.0
home=$(mkdir -p "$1" && cd "$1" && pwd)
parts=$home/parts
mkdir -p "$parts/wheel"
python3 -m pip download -q --no-deps --only-binary :all: --python-version 3.11 \
	-d "$parts" "apache-flink==$version"
python3 -m pip download -q --no-deps --no-binary :all: -d "$parts" "apache-flink-libraries==$version"
python3 -m zipfile -e "$parts"/apache_flink-"$version"-*.whl "$parts/wheel"
tar -xzf "$parts/apache_flink_libraries-$version.tar.gz" -C "$parts"
deps=$parts/apache_flink_libraries-$version/deps
cp -r "$parts/wheel/pyflink/bin" "$parts/wheel/pyflink/conf" "$home"
cp -r "$deps/lib" "$deps/opt" "$deps/plugins" "$home"
cp "$deps/bin/bash-java-utils.jar" "$home/bin"
chmod +x "$home"/bin/*.sh "$home/bin/flink"
mkdir -p "$home/log"
rm -r "$parts"
